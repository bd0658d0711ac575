"""How narrow a window must be before it moves less than exact attention."""

from ..io_model import flash_io
from ._exercise import Case, Exercise, edited

STATEMENT = r"""
Forward pass, one head, $N$ queries and keys. A window of $W$ computed with three kernels, as
standard attention is, moves $4NW + 4Nd$ elements. Exact FlashAttention in the paper's order moves

$$2Nd + (Nd + 2N) + T_c\,(3Nd + 4N),$$

with $T_c = \lceil N / B_c \rceil$ and $B_c = \lceil M / 4d \rceil$. Return the widest $W \le N$
with which the window moves strictly less.
"""


def window_to_beat_exact(N, d, M):
    """Widest window whose three kernels move less than exact FlashAttention.

    Parameters
    ----------
    N, d : int
        Sequence length and head dimension of one head.
    M : int
        On-chip capacity in elements, at least d.

    Returns
    -------
    W : int
        From 1 to N.
    """
    Tc = -(-N // -(-M // (4 * d)))
    flash = 3 * N * d + 2 * N + Tc * (3 * N * d + 4 * N)
    W = -(-flash // (4 * N)) - 1 - d
    return min(N, W)


def by_trying(N, d, M):
    """The same by trying every window."""
    flash = flash_io(N, d, M).forward
    return max(W for W in range(1, N + 1) if 4 * N * W + 4 * N * d < flash)


def case(label, N, d, M=98_304, hint=1):
    """One head on one chip."""
    return Case(f"{label}: N = {N:,}, d = {d}, M = {M:,}", {"N": N, "d": d, "M": M}, hint=hint)


EXERCISE = Exercise(
    chapter="11",
    title="How narrow must a window be?",
    statement=STATEMENT,
    solution=window_to_beat_exact,
    oracle=by_trying,
    returns=("W",),
    cases=[
        case("small, in whole numbers", 10, 3, 48),
        case("equal traffic is not less", 8, 2, 32, hint=2),
        case("one pass of FlashAttention", 256, 64),
        case("short", 512, 64),
        case("GPT-2's context", 1024, 64),
        case("long", 8192, 64),
        case("wide heads", 2048, 128),
        case("a tiny chip: any window wins", 100, 16, 16, hint=3),
    ],
    wrong={
        "ties count": edited(
            window_to_beat_exact,
            "The widest window moves exactly as much as FlashAttention. It must move less.",
            {"-(-flash // (4 * N)) - 1 - d": "flash // (4 * N) - d"},
        ),
        "Q, K, V and O forgotten": edited(
            window_to_beat_exact,
            "The window's own Q, K, V and O were left out: 4 N d.",
            {" - 1 - d": " - 1"},
        ),
        "standard in place of flash": edited(
            window_to_beat_exact,
            "The window was compared with standard attention. Exact attention has become cheaper.",
            {"3 * N * d + 2 * N + Tc * (3 * N * d + 4 * N)": "4 * N * N + 4 * N * d"},
        ),
        "wider than the sequence": edited(
            window_to_beat_exact,
            "A window cannot be wider than the sequence.",
            {"min(N, W)": "W"},
        ),
        "rounded down": edited(
            window_to_beat_exact,
            "The number of passes was rounded down. A short last block costs a whole pass.",
            {"-(-N // -(-M // (4 * d)))": "max(1, N // -(-M // (4 * d)))"},
        ),
    },
    hints=[
        "Solve 4 N W + 4 N d < flash for W, in whole numbers.",
        "The largest integer strictly below a / b is ceil(a / b) - 1.",
        "On a tiny chip the bound exceeds N. A window does not.",
    ],
    explanation=r"""At $N = 1024$, $d = 64$ on the A100's $M$ the window must be 131 or narrower, an
    eighth of the sequence, before it moves less than exact attention does. At $N = 8192$ it may be
    1,062: FlashAttention's traffic grows with $N^2$, the window's does not.""",
)
