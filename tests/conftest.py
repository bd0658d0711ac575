"""Without a GPU, Triton kernels run through Triton's interpreter, on CPU tensors.

Triton reads the variable when it is first imported, so it is set before any test module is.
"""

import ctypes
import os


def gpu_driver_present() -> bool:
    """Whether the CUDA driver can be loaded; asking torch would cost seconds."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


if not gpu_driver_present():
    os.environ.setdefault("TRITON_INTERPRET", "1")
