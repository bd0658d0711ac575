"""The roofline model: an operation costs FLOP and bytes, a device pays the larger of two times.

A cost counts what the operation must do and must move: each input read once, each output written
once, a multiply-add as 2 FLOP. Real kernels may move more; that gap is what the chapters are about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

from lecture_code.hardware import Device, dtype_bytes, find_device


@dataclass(frozen=True)
class OpCost:
    """FLOP done and bytes moved by one operation. Costs add; an integer times a cost repeats it.

    Raises
    ------
    TypeError, ValueError
        If `flop` or `bytes` is not a number, or is negative or not finite.

    >>> matmul = OpCost(flop=2_147_483_648, bytes=34_603_008)
    >>> round(matmul.intensity, 1), (2 * matmul + OpCost(0, 8)).bytes
    (62.1, 69206024)
    """

    flop: float
    bytes: float

    def __post_init__(self):
        for name in ("flop", "bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise TypeError(f"{name}: expected a number, got {type(value).__name__}")
            if not 0 <= value < math.inf:
                raise ValueError(f"{name}: expected a finite number of at least 0, got {value}")
            # numpy's integers overflow, Python's do not
            object.__setattr__(self, name, getattr(value, "item", lambda v=value: v)())

    @property
    def intensity(self) -> float:
        """Arithmetic intensity in FLOP per byte (ValueError when no byte is moved)."""
        if self.bytes == 0:
            raise ValueError("bytes: an operation that moves nothing has no intensity")
        return self.flop / self.bytes

    def __add__(self, other):
        if not isinstance(other, OpCost):
            return NotImplemented
        return OpCost(self.flop + other.flop, self.bytes + other.bytes)

    def __radd__(self, other):
        # sum() starts from 0
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, times: int):
        if isinstance(times, bool) or not isinstance(times, int):
            return NotImplemented
        return OpCost(self.flop * times, self.bytes * times)

    __rmul__ = __mul__


def _count(name: str, value: int, least: int = 1) -> int:
    """Check a size given by the caller."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected a whole number, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, got {value}")
    return value.__index__()


def matmul_cost(m: int, k: int, n: int, *, dtype: str = "float16", batch: int = 1) -> OpCost:
    """Return the cost of `batch` products (m, k) @ (k, n): 2mkn FLOP, each matrix moved once.

    The square product of n x n matrices has intensity n/3 in 16 bits.

    Raises
    ------
    TypeError, ValueError
        If a size is not a whole number of at least 1, or the dtype is unknown.

    >>> matmul_cost(4096, 64, 4096).bytes  # Q K^T of one head
    34603008
    >>> matmul_cost(300, 300, 300).intensity
    100.0
    """
    m, k, n, batch = _count("m", m), _count("k", k), _count("n", n), _count("batch", batch)
    elements = m * k + k * n + m * n
    return OpCost(batch * 2 * m * k * n, batch * elements * dtype_bytes(dtype))


def elementwise_cost(
    elements: int,
    *,
    reads: int = 1,
    writes: int = 1,
    flop_per_element: float = 1,
    dtype: str = "float16",
) -> OpCost:
    """Return the cost of a kernel that reads and writes whole arrays of `elements` elements.

    Parameters
    ----------
    elements
        Elements of one array.
    reads, writes
        Arrays read and written.
    flop_per_element
        FLOP done for each element of the result.

    Raises
    ------
    TypeError, ValueError
        If a count is not a whole number in range, `flop_per_element` is negative, or the dtype is
        unknown.

    >>> elementwise_cost(10**6, flop_per_element=1, dtype="float32")  # ReLU: 8 bytes a FLOP
    OpCost(flop=1000000, bytes=8000000)
    """
    elements = _count("elements", elements)
    accesses = _count("reads", reads, 0) + _count("writes", writes, 0)
    return OpCost(elements * flop_per_element, elements * accesses * dtype_bytes(dtype))


def softmax_cost(
    rows: int, columns: int, *, dtype: str = "float16", flop_per_element: float = 5
) -> OpCost:
    """Return the cost of a row softmax in one kernel: one read, one write.

    The 5 FLOP an element: maximum, subtraction, exponential, sum, division.

    >>> softmax_cost(8192, 8192).intensity
    1.25
    """
    elements = _count("rows", rows) * _count("columns", columns)
    return elementwise_cost(elements, flop_per_element=flop_per_element, dtype=dtype)


def layernorm_cost(
    rows: int,
    width: int,
    *,
    dtype: str = "float16",
    flop_per_element: float = 8,
    affine: bool = True,
) -> OpCost:
    """Return the cost of LayerNorm in one kernel: one read, one write, gain and bias if `affine`.

    The 8 FLOP an element: mean, subtraction, square, variance, scaling, gain, bias, and their sums.

    >>> layernorm_cost(8192, 1024, affine=False).intensity
    2.0
    """
    rows, width = _count("rows", rows), _count("width", width)
    cost = elementwise_cost(rows * width, flop_per_element=flop_per_element, dtype=dtype)
    parameters = OpCost(0, 2 * width * dtype_bytes(dtype))
    return cost + parameters if affine else cost


def time_bound(
    cost: OpCost, device: Device | str, *, dtype: str = "float16", unit: str = "matrix"
) -> float:
    """Return the least time in seconds that a device needs: max(FLOP / peak, bytes / bandwidth).

    Parameters
    ----------
    cost
        What the operation does and moves.
    device
        A `Device`, or its key in `DEVICES`.
    dtype, unit
        They choose the peak: the type that the arithmetic runs in, and "matrix" or "vector" for the
        unit that runs it.

    Raises
    ------
    ValueError
        If the device is unknown or has no stated peak for this dtype and unit.

    >>> round(time_bound(matmul_cost(8192, 8192, 8192), "A100-40GB") * 1e3, 2)  # ms
    3.52
    """
    return max(_times(cost, device, dtype, unit))


def bound_by(
    cost: OpCost, device: Device | str, *, dtype: str = "float16", unit: str = "matrix"
) -> str:
    """Return "compute" or "memory", whichever time is the larger ("compute" at the ridge itself).

    >>> bound_by(matmul_cost(4096, 64, 4096), "A100-40GB")
    'memory'
    """
    compute_s, memory_s = _times(cost, device, dtype, unit)
    return "compute" if compute_s >= memory_s else "memory"


def _times(cost: OpCost, device: Device | str, dtype: str, unit: str) -> tuple[float, float]:
    if not isinstance(cost, OpCost):
        raise TypeError(f"cost: expected an OpCost, got {type(cost).__name__}")
    found = find_device(device)
    return (
        cost.flop / found.peak_flop_per_s(dtype, unit=unit),
        cost.bytes / found.memory_bytes_per_s,
    )


def attainable_flop_per_s(
    intensity: float, device: Device | str, *, dtype: str = "float16", unit: str = "matrix"
) -> float:
    """Return the roof over one intensity: min(peak, intensity x bandwidth), in FLOP/s.

    Raises
    ------
    ValueError
        If the intensity is negative, the device unknown, or the peak not stated.

    >>> attainable_flop_per_s(62.1, "A100-40GB") / 1e12
    96.5655
    """
    if not intensity >= 0:
        raise ValueError(f"intensity: expected at least 0 FLOP/byte, got {intensity}")
    found = find_device(device)
    return min(found.peak_flop_per_s(dtype, unit=unit), intensity * found.memory_bytes_per_s)


def visible_pairs(N: int, N_k: int | None = None, *, causal: str = "none") -> float:
    """Return how many (query, key) pairs are counted under a convention that its name states.

    Parameters
    ----------
    N, N_k
        Queries and keys (N keys if left out).
    causal
        "none": all N x N_k pairs. "exact": the pairs that a causal mask, aligned at the bottom
        right, leaves visible. "half": half of all pairs, as papers quote causal speed.

    >>> [visible_pairs(4, causal=convention) for convention in ("none", "exact", "half")]
    [16, 10, 8.0]
    """
    N = _count("N", N, 0)
    N_k = N if N_k is None else _count("N_k", N_k, 0)
    if causal == "none":
        return N * N_k
    if causal == "half":
        return N * N_k / 2
    if causal == "exact":
        # row i sees i + 1 + N_k - N keys; rows without any come first
        seen = min(N, N_k)
        return seen * N_k - seen * (seen - 1) // 2
    raise ValueError(f'causal: expected "none", "exact" or "half", got {causal!r}')


def attention_flop(
    N: int,
    d: int,
    *,
    N_k: int | None = None,
    heads: int = 1,
    batch: int = 1,
    causal: str = "none",
    passes: str = "forward",
    recompute: bool = False,
) -> float:
    """Return the matmul FLOP of attention, 4d a visible pair forward and 8d backward.

    The backward costs 10d a pair if it recomputes S. Softmax, scaling and masking are left out:
    they run on other units.

    Parameters
    ----------
    N, N_k, d
        Queries, keys (N if left out) and head dimension.
    heads, batch
        Query heads and sequences.
    causal
        Which pairs count: "none", "exact" or "half", see `visible_pairs`.
    passes
        "forward", "backward" or "both".
    recompute
        The backward computes S = Q K^T again, as FlashAttention does: 5 products, not 4.

    Raises
    ------
    TypeError, ValueError
        If a size is not a whole number in range, or `causal` or `passes` names nothing.

    References
    ----------
    FlashAttention-2 (arXiv 2307.08691), section 4.1: 4 N^2 d heads forward, half of it if causal,
    2.5 times that backward.

    >>> attention_flop(4, 1, passes="both"), attention_flop(4, 1, passes="both", recompute=True)
    (192, 224)
    """
    products = {"forward": 2, "backward": 5 if recompute else 4}
    if passes == "both":
        count = sum(products.values())
    elif passes in products:
        count = products[passes]
    else:
        raise ValueError(f'passes: expected "forward", "backward" or "both", got {passes!r}')
    heads, batch = _count("heads", heads, 0), _count("batch", batch, 0)
    flop = 2 * count * _count("d", d) * heads * batch * visible_pairs(N, N_k, causal=causal)
    return int(flop)
