"""What a Transformer costs: parameters, FLOP a token, and the ledger of one layer's forward."""

from __future__ import annotations

from dataclasses import dataclass

from lecture_code.blocks import positive_int, positive_number
from lecture_code.hardware import Device, dtype_bytes, find_device
from lecture_code.io_model import flash_io
from lecture_code.roofline import (
    OpCost,
    bound_by,
    elementwise_cost,
    layernorm_cost,
    matmul_cost,
    softmax_cost,
    time_bound,
)

PAPER_M_ELEMS = 98_304
"""192 KiB of 16-bit elements: one SM of an A100, the on-chip capacity the lecture counts with."""

GELU_FLOP_PER_ELEMENT = 8


def layer_parameters(d_model: int) -> int:
    """Weights of one layer's matrices: 4 d² in attention and 8 d² in an MLP four times as wide.

    >>> 96 * layer_parameters(12288) / 1e9  # GPT-3's layers, in billions
    173.946175488
    """
    return 12 * positive_int("d_model", d_model) ** 2


def training_flop_per_token(parameters: float) -> float:
    """6 N: a multiply-add for each weight forward (2 N), and twice that backward (4 N).

    Attention's products with other tokens are left out; :func:`attention_flop_per_token` adds them.

    References
    ----------
    Kaplan et al. 2020, Scaling laws for neural language models, section 2.1.

    >>> training_flop_per_token(540.35e9) / 1e12
    3.2421
    """
    return 6 * positive_number("parameters", parameters)


def attention_flop_per_token(*, layers: int, heads: int, head_dim: int, context: int) -> int:
    """12 L H Q T: the products of attention in training, forward and backward, a token.

    All T keys are counted for every query, as PaLM's Appendix B does; a causal mask needs half.

    >>> attention_flop_per_token(layers=118, heads=48, head_dim=256, context=2048) / 1e10
    3.5634806784
    """
    sizes = {"layers": layers, "heads": heads, "head_dim": head_dim, "context": context}
    product = 12
    for name, value in sizes.items():
        product *= positive_int(name, value)
    return product


def training_flop(parameters: float, tokens: float) -> float:
    """C = 6 N D.

    >>> training_flop(540.35e9, 780e9) / 1e24
    2.528838
    """
    return training_flop_per_token(parameters) * positive_number("tokens", tokens)


@dataclass(frozen=True)
class LedgerRow:
    """One kernel of a layer: its cost, the least time it needs, and what bounds it."""

    op: str
    is_matmul: bool
    cost: OpCost
    time_s: float
    bound: str


@dataclass(frozen=True)
class Ledger:
    """The kernels of one layer's forward, in order."""

    rows: tuple[LedgerRow, ...]
    peak_flop_per_s: float

    @property
    def time_s(self) -> float:
        return sum(row.time_s for row in self.rows)

    @property
    def flop(self) -> float:
        return sum(row.cost.flop for row in self.rows)

    @property
    def bytes(self) -> float:
        return sum(row.cost.bytes for row in self.rows)

    @property
    def fraction_of_peak(self) -> float:
        """FLOP over time over peak: the most this list of kernels can reach."""
        return self.flop / self.time_s / self.peak_flop_per_s

    def share(self, *ops: str) -> tuple[float, float]:
        """Share of all FLOP and of all time that the named kernels have together."""
        known = {row.op for row in self.rows}
        if missing := set(ops) - known:
            raise ValueError(f"ops not in the ledger: {sorted(missing)}; it has {sorted(known)}")
        chosen = [row for row in self.rows if row.op in ops]
        flop, time_s = sum(r.cost.flop for r in chosen), sum(r.time_s for r in chosen)
        return flop / self.flop, time_s / self.time_s


def layer_ledger(
    *,
    d_model: int,
    heads: int,
    N: int,
    batch: int,
    device: Device | str,
    dtype: str = "float16",
    fused: bool = False,
    M: int = PAPER_M_ELEMS,
) -> Ledger:
    """Every kernel of one Transformer layer's forward, with the least time a device needs for it.

    A model of the ideal: each kernel reaches the larger of its two bounds, products and other
    arithmetic at the matrix peak, no bias and no dropout.

    Parameters
    ----------
    d_model, heads, N, batch : int
        Width, heads (d_model / heads is the head dimension), sequence length, sequences.
    device : Device or str
        Itself or its name in ``DEVICES``.
    dtype : str
        Element type of activations and weights.
    fused : bool
        False: each operation is a kernel, S and P go through memory. True: one FlashAttention
        kernel (the paper's forward traffic with ``M`` elements on chip), GELU inside the first MLP
        product, residual additions inside the projections.
    M : int
        On-chip capacity in elements of the fused attention.

    Raises
    ------
    ValueError
        If ``heads`` does not divide ``d_model``.

    Examples
    --------
    >>> from lecture_code.hardware import DEVICES
    >>> sizes = dict(d_model=1024, heads=16, N=1024, batch=8, device=DEVICES["A100-40GB"])
    >>> plain, fused = layer_ledger(**sizes), layer_ledger(**sizes, fused=True)
    >>> round(plain.time_s * 1e3, 3), round(fused.time_s * 1e3, 3)
    (2.279, 0.837)
    """
    d_model, heads = positive_int("d_model", d_model), positive_int("heads", heads)
    N, batch = positive_int("N", N), positive_int("batch", batch)
    if d_model % heads:
        raise ValueError(f"heads must divide d_model, got heads = {heads}, d_model = {d_model}")
    d, T, BH = d_model // heads, batch * N, batch * heads
    device = find_device(device)
    peak = device.peak_flop_per_s(dtype)

    def elementwise(elements, **counts):
        return elementwise_cost(elements, dtype=dtype, **counts)

    def linear(k, n):
        return matmul_cost(T, k, n, dtype=dtype)

    norm = layernorm_cost(T, d_model, dtype=dtype, affine=False)
    residual = elementwise(T * d_model, reads=2)
    # what an addition inside the product's kernel still costs: one more array to read
    inside = elementwise(T * d_model, reads=1, writes=0)
    gelu_flop = OpCost(GELU_FLOP_PER_ELEMENT * T * 4 * d_model, 0)
    if fused:
        attention = [("flash", True, _flash_cost(N, d, BH, M, dtype))]
    else:
        S = BH * N * N
        attention = [
            ("QKᵀ", True, matmul_cost(N, d, N, batch=BH, dtype=dtype)),
            ("scale", False, elementwise(S)),
            ("mask", False, elementwise(S)),
            ("softmax", False, softmax_cost(BH * N, N, dtype=dtype)),
            ("PV", True, matmul_cost(N, N, d, batch=BH, dtype=dtype)),
        ]
    proj, fc1, fc2 = (
        linear(d_model, d_model),
        linear(d_model, 4 * d_model),
        linear(4 * d_model, d_model),
    )
    if fused:
        after = [("proj + residual", True, proj + inside), ("LN 2", False, norm)]
        mlp = [("fc1 + GELU", True, fc1 + gelu_flop), ("fc2 + residual", True, fc2 + inside)]
    else:
        after = [("proj", True, proj), ("residual 1", False, residual), ("LN 2", False, norm)]
        gelu = elementwise(T * 4 * d_model, flop_per_element=GELU_FLOP_PER_ELEMENT)
        mlp = [("fc1", True, fc1), ("GELU", False, gelu), ("fc2", True, fc2)]
        mlp.append(("residual 2", False, residual))
    before = [("LN 1", False, norm), ("QKV", True, linear(d_model, 3 * d_model))]
    rows = tuple(
        LedgerRow(
            op,
            is_matmul,
            cost,
            time_bound(cost, device, dtype=dtype),
            bound_by(cost, device, dtype=dtype),
        )
        for op, is_matmul, cost in before + attention + after + mlp
    )
    return Ledger(rows, peak)


def _flash_cost(N: int, d: int, heads: int, M: int, dtype: str) -> OpCost:
    """The paper's forward: 4 N² d in products and 7 N² around them, FA-1's traffic, each head."""
    return heads * OpCost(4 * N * N * d + 7 * N * N, dtype_bytes(dtype) * flash_io(N, d, M).forward)
