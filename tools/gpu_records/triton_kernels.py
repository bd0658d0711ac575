"""Three one-line kernels in Triton: a chain of multiply-adds, and two fused programs."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

BLOCK = 1024


@triton.jit
def _fma_chain(x_ptr, out_ptr, n, LINKS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = x
    # LINKS dependent multiply-adds; |0.5 y + x| stays bounded
    for _ in range(LINKS):
        y = y * 0.5 + x
    tl.store(out_ptr + at, y, mask=at < n)


@triton.jit
def _fused(x_ptr, out_ptr, n, SIN_COS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    if SIN_COS:
        s = libdevice.sin(x)
        c = libdevice.cos(x)
        y = s * s + c * c
    else:
        y = libdevice.cos(libdevice.cos(x))
    tl.store(out_ptr + at, y, mask=at < n)


def fma_chain(x, out, links: int):
    """out = ((x/2 + x)/2 + x)/2 ..., `links` times."""
    n = x.numel()
    _fma_chain[(triton.cdiv(n, BLOCK),)](x, out, n, LINKS=links, BLOCK=BLOCK)
    return out


def fused(x, out, operation: str):
    """out = sin²x + cos²x ("sin_cos") or cos(cos(x)) ("cos_cos")."""
    n = x.numel()
    _fused[(triton.cdiv(n, BLOCK),)](x, out, n, SIN_COS=operation == "sin_cos", BLOCK=BLOCK)
    return out
