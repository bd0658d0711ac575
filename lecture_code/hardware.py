"""Devices as records: dense peaks, memory, on-chip storage and links, with units in the names.

The numbers and their sources stand in `lecture_code.device_table`. A rate that a device does not
have (no bfloat16 on a T4, no matrix unit in a K20) is None in the record and a ValueError when
asked for: no number here is ever a default for another.
"""

from __future__ import annotations

from dataclasses import dataclass

from lecture_code.device_table import TABLE

#: Bytes of one element. tf32 is float32 in memory; only the matrix unit rounds it.
DTYPE_BYTES = {
    "float64": 8,
    "float32": 4,
    "tf32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8": 1,
    "int8": 1,
}


@dataclass(frozen=True)
class Device:
    """One accelerator. Rates are dense peaks; None means that no document gives the number.

    Attributes
    ----------
    name, year, kind, source
        Key in `DEVICES`, year of announcement, "GPU" or "TPU", and the main document.
    *_matrix_flop_per_s
        Peak of the matrix unit (tensor cores, MXU) on operands of that type, in FLOP/s.
    *_vector_flop_per_s
        Peak of the ordinary arithmetic units, in FLOP/s.
    special_flop_per_s
        Peak of the special-function units (exp, sin), in operations per second.
    memory_bytes, memory_bytes_per_s
        Device memory (HBM or GDDR): capacity and bandwidth.
    l2_bytes, l2_bytes_per_s
        L2 cache of the whole chip.
    sm_count, l1_bytes_per_sm, shared_bytes_per_sm, register_bytes_per_sm
        Streaming multiprocessors; L1 and shared memory together; the largest part of it that can be
        shared memory; registers.
    shared_bytes_per_s
        Bandwidth of the shared memory of all SMs together.
    pcie_generation, pcie_bytes_per_s, link_name, link_bytes_per_s
        Links to the host and to other devices, both directions together, as datasheets count.
    """

    name: str
    year: int
    source: str
    memory_kind: str
    memory_bytes: int
    memory_bytes_per_s: float
    kind: str = "GPU"
    compute_capability: str | None = None
    float16_matrix_flop_per_s: float | None = None
    bfloat16_matrix_flop_per_s: float | None = None
    tf32_matrix_flop_per_s: float | None = None
    float8_matrix_flop_per_s: float | None = None
    float16_vector_flop_per_s: float | None = None
    float32_vector_flop_per_s: float | None = None
    special_flop_per_s: float | None = None
    l2_bytes: int | None = None
    l2_bytes_per_s: float | None = None
    sm_count: int | None = None
    l1_bytes_per_sm: int | None = None
    shared_bytes_per_sm: int | None = None
    register_bytes_per_sm: int | None = None
    shared_bytes_per_s: float | None = None
    pcie_generation: int | None = None
    pcie_bytes_per_s: float | None = None
    link_name: str | None = None
    link_bytes_per_s: float | None = None

    def dtypes(self, unit: str = "matrix") -> tuple[str, ...]:
        """Return the element types for which `unit` ("matrix" or "vector") has a stated peak.

        >>> DEVICES["T4"].dtypes(), DEVICES["K20"].dtypes()
        (('float16',), ())
        """
        _check_unit(unit)
        return tuple(
            dtype
            for dtype in DTYPE_BYTES
            if getattr(self, f"{dtype}_{unit}_flop_per_s", None) is not None
        )

    def peak_flop_per_s(self, dtype: str = "float16", *, unit: str = "matrix") -> float:
        """Return the dense peak of one unit on one element type, in FLOP/s.

        Parameters
        ----------
        dtype
            "float16", "bfloat16", "tf32", "float8" (matrix); "float16", "float32" (vector).
        unit
            "matrix" for tensor cores and MXUs, "vector" for everything else.

        Raises
        ------
        ValueError
            If no peak is known for this unit and dtype; the message lists those that are.

        >>> DEVICES["A100-40GB"].peak_flop_per_s("float32", unit="vector") / 1e12
        19.5
        """
        known = self.dtypes(unit)
        if dtype not in known:
            listed = ", ".join(known) or "none"
            raise ValueError(
                f"dtype: {self.name} has no known {unit} peak for {dtype!r}; known: {listed}"
            )
        return getattr(self, f"{dtype}_{unit}_flop_per_s")

    @property
    def on_chip_bytes(self) -> int | None:
        """L1 and shared memory of all SMs: the FlashAttention paper's "SRAM" (None if not known).

        >>> DEVICES["A100-40GB"].on_chip_bytes == 108 * 192 * 1024  # 20.25 MiB
        True
        """
        if self.sm_count is None or self.l1_bytes_per_sm is None:
            return None
        return self.sm_count * self.l1_bytes_per_sm


DEVICES: dict[str, Device] = {name: Device(name=name, **numbers) for name, numbers in TABLE.items()}


def _check_unit(unit: str) -> None:
    if unit not in ("matrix", "vector"):
        raise ValueError(f'unit: expected "matrix" or "vector", got {unit!r}')


def find_device(device: Device | str) -> Device:
    """Return a device, given itself or its key in `DEVICES`.

    Raises
    ------
    ValueError
        If the key is unknown; the message lists those that are known.

    >>> find_device("H100-SXM").sm_count
    132
    """
    if isinstance(device, Device):
        return device
    if not isinstance(device, str) or device not in DEVICES:
        raise ValueError(f"device: unknown {device!r}; known: {', '.join(DEVICES)}")
    return DEVICES[device]


def dtype_bytes(dtype: str) -> int:
    """Return the bytes of one element.

    Raises
    ------
    ValueError
        If the name is unknown; the message lists those that are known.

    >>> dtype_bytes("bfloat16")
    2
    """
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise ValueError(f"dtype: unknown {dtype!r}; known: {', '.join(DTYPE_BYTES)}")
    return DTYPE_BYTES[dtype]


def ridge_flop_per_byte(
    device: Device | str, dtype: str = "float16", *, unit: str = "matrix"
) -> float:
    """Return the ridge point: FLOP a device can do in the time it moves one byte.

    A kernel of lower intensity waits for memory, one of higher intensity for arithmetic.

    Raises
    ------
    ValueError
        If the device is unknown, or has no stated peak for this dtype and unit.

    References
    ----------
    Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.

    >>> [round(ridge_flop_per_byte(name)) for name in ("V100", "A100-40GB", "H100-SXM")]
    [139, 201, 295]
    """
    found = find_device(device)
    return found.peak_flop_per_s(dtype, unit=unit) / found.memory_bytes_per_s
