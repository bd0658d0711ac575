"""The closed form of FlashAttention's traffic, forward and backward."""

from ..io_model import flash_io
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
Count the elements that FlashAttention moves between HBM and the chip for one head, in the paper's
order: blocks of $B_c = \lceil M/4d \rceil$ rows of K and V outside, all of Q inside. Rounding
matters: there are $T_c = \lceil N / B_c \rceil$ column blocks, the last one short.

- Forward. K and V are read once. O, $\ell$ and m are stored once before the first block. For each
  column block all of Q, O, $\ell$ and m is read, and O, $\ell$ and m are written.
- Backward. K and V are read once, dK and dV are written once. dQ is stored once before the first
  block. For each column block all of Q, O, dO, dQ, $\ell$ and m is read, and dQ is written.

Return (forward, backward) as whole numbers.
"""


def flash_traffic(N, d, M):
    """Elements moved by FlashAttention's forward and backward pass, one head.

    Parameters
    ----------
    N : int
        Queries and keys.
    d : int
        Head dimension.
    M : int
        On-chip capacity in elements.

    Returns
    -------
    forward, backward : int
    """
    Bc = -(-M // (4 * d))
    Tc = -(-N // Bc)
    initial, per_block = N * d + 2 * N, 3 * N * d + 4 * N
    forward = 2 * N * d + initial + Tc * per_block
    initial, per_block = N * d, 5 * N * d + 2 * N
    backward = 4 * N * d + initial + Tc * per_block
    return forward, backward


def oracle(N, d, M):
    """The package's closed form, which adds up blocks."""
    io = flash_io(N, d, M)
    return io.forward, io.backward


def case(label, N, d, M, hint=1):
    """One problem on one chip."""
    return Case(f"{label}: N = {N:,}, d = {d}, M = {M:,}", {"N": N, "d": d, "M": M}, hint=hint)


EXERCISE = Exercise(
    chapter="10",
    title="Traffic in closed form",
    statement=STATEMENT,
    solution=flash_traffic,
    oracle=oracle,
    returns=("forward", "backward"),
    cases=[
        case("one block", 2, 2, 16),
        case("two blocks", 4, 2, 16, hint=2),
        case("the last block is short", 5, 2, 16, hint=3),
        case("M / 4d is not whole", 6, 2, 17, hint=3),
        case("one query and key", 1, 3, 12),
        case("one block, M far above Nd", 10, 4, 100_000, hint=3),
        case("a tiny chip", 100, 8, 8, hint=3),
        case("the lecture's, d = 64", 8192, 64, 98_304),
        case("the lecture's, d = 128", 8192, 128, 98_304, hint=3),
    ],
    wrong={
        "blocks rounded down": edited(
            flash_traffic,
            "The number of column blocks was rounded down. The short last block is a block too.",
            {"-(-N // Bc)": "max(N // Bc, 1)"},
        ),
        "block size rounded down": edited(
            flash_traffic,
            "The block size M / 4d was rounded down. The rule rounds it up.",
            {"-(-M // (4 * d))": "max(M // (4 * d), 1)"},
        ),
        "forgot l and m": edited(
            flash_traffic,
            "The row statistics l and m were left out. They move with every block as well.",
            {
                "N * d + 2 * N, 3 * N * d + 4 * N": "N * d, 3 * N * d",
                "5 * N * d + 2 * N": "5 * N * d",
            },
        ),
        "forgot the initial store": edited(
            flash_traffic,
            """The store before the first block was left out: O, l, m in the forward, dQ in the
            backward.""",
            {
                "forward = 2 * N * d + initial": "forward = 2 * N * d",
                "backward = 4 * N * d + initial": "backward = 4 * N * d",
            },
        ),
        "forgot to write dK and dV": edited(
            flash_traffic,
            "dK and dV were not written. Like K and V they have N d elements each.",
            {"backward = 4 * N * d": "backward = 2 * N * d"},
        ),
        "K and V with every block": edited(
            flash_traffic,
            """K and V were read with every block. Each of their rows belongs to one block: read
            once.""",
            {"forward = 2 * N * d": "forward = Tc * 2 * N * d"},
        ),
        "O not read back": edited(
            flash_traffic,
            "O is read back as well before it is updated: Q and O in, O out, 3 N d a block.",
            {"3 * N * d + 4 * N": "2 * N * d + 4 * N"},
        ),
        "O and dO confused": edited(
            flash_traffic,
            "Backward: Q, O, dO and dQ are read, dQ is written, 5 N d a block. One was left out.",
            {"5 * N * d + 2 * N": "4 * N * d + 2 * N"},
        ),
    },
    hints=[
        "With one block: add up what the two lists say, once each.",
        "What the lists say for each column block is multiplied by Tc, the rest is not.",
        "Both divisions round up: Bc = -(-M // (4 * d)) and Tc = -(-N // Bc).",
    ],
    explanation=r"""Forward: $2Nd + (Nd + 2N) + T_c(3Nd + 4N)$. Backward: $4Nd + Nd + T_c(5Nd +
    2N)$. For $N = 8192$, $d = 128$, $M = 98{,}304$ there are 43 column blocks and 371,228,672
    elements in all. The counted runs of the package give the same whole numbers.""",
)
