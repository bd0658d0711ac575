"""From a program's number to the head and the block of queries that it owns."""

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A causal kernel is launched with $B \cdot H \cdot T_r$ programs on one axis, $T_r$ blocks of
queries a head. Hardware starts programs in the order of their numbers. The heaviest block of a
head is its last one, so it comes first: the first $T_r$ programs are head 0 from its last block
to its first, then head 1, and so on, all heads of batch 0 before batch 1. $H$ is a multiple of
$H_{kv}$; query head $h$ reads key head $h // (H / H_{kv})$.

Return for program `pid` the batch, the query head, the key head, the block of queries, and the
offset in elements of the block's first row in a contiguous $(B, H, T_r B_r, d)$ tensor.
"""


def program_to_tile(pid, H, H_kv, Tr, Br, d):
    """What one program works on.

    Parameters
    ----------
    pid : int
        Number of the program.
    H, H_kv : int
        Query heads and key heads.
    Tr, Br : int
        Blocks of queries a head, rows in a block.
    d : int
        Head dimension.

    Returns
    -------
    batch, head, kv_head, block, offset : int
    """
    flat_head, place = divmod(pid, Tr)
    batch, head = divmod(flat_head, H)
    block = Tr - 1 - place
    offset = (flat_head * Tr + block) * Br * d
    return batch, head, head // (H // H_kv), block, offset


def by_counting(pid, H, H_kv, Tr, Br, d):
    """Take the programs one head at a time."""
    flat_head, left = 0, pid
    while left >= Tr:
        flat_head, left = flat_head + 1, left - Tr
    block = [*range(Tr)][::-1][left]
    batch = flat_head // H
    head = flat_head - batch * H
    kv_head = [h for h in range(H_kv) for _ in range(H // H_kv)][head]
    offset = batch * H * Tr * Br * d + head * Tr * Br * d + block * Br * d
    return batch, head, kv_head, block, offset


def case(label, *values, hint=1):
    names = ("pid", "H", "H_kv", "Tr", "Br", "d")
    return Case(label, dict(zip(names, values)), hint=hint)


EXERCISE = Exercise(
    chapter="12",
    title="Which tile is mine?",
    statement=STATEMENT,
    solution=program_to_tile,
    oracle=by_counting,
    returns=("batch", "head", "kv_head", "block", "offset"),
    cases=[
        case("the first program", 0, 2, 2, 4, 16, 16, hint=2),
        case("the last block of the first head to start", 3, 2, 2, 4, 16, 16, hint=2),
        case("the second head", 5, 2, 2, 4, 16, 16),
        case("the second batch", 9, 2, 2, 4, 16, 16),
        case("six heads on two", 13, 6, 2, 3, 16, 32, hint=3),
        case("one key head for all", 29, 6, 1, 3, 16, 32, hint=3),
        case("an offset beyond 2³¹", 262_143, 16, 16, 512, 128, 128, hint=4),
    ],
    wrong={
        "light blocks first": edited(
            program_to_tile,
            "The blocks come in ascending order, so the longest programs start last. Reverse them.",
            {"block = Tr - 1 - place": "block = place"},
            hint=2,
        ),
        "heads fastest": edited(
            program_to_tile,
            "The heads change fastest here. All blocks of one head come before the next head.",
            {
                "flat_head, place = divmod(pid, Tr)": (
                    "place, flat_head = pid // (2 * H), pid % (2 * H)"
                )
            },
        ),
        "key head by remainder": edited(
            program_to_tile,
            "The key head was taken by the remainder. Neighbouring query heads share one: divide.",
            {"head // (H // H_kv)": "head % H_kv"},
            hint=3,
        ),
        "key head is the query head": edited(
            program_to_tile,
            "The query head was taken as the key head. There are only H_kv of those.",
            {"head // (H // H_kv)": "head"},
            hint=3,
        ),
        "32-bit offset": edited(
            program_to_tile,
            "The offset wrapped around at 2³¹, as a 32-bit integer does: the kernel would read "
            "another tensor's memory. Compute offsets in 64 bits.",
            {
                "offset = (flat_head * Tr + block) * Br * d": (
                    "offset = ((flat_head * Tr + block) * Br * d + 2**31) % 2**32 - 2**31"
                )
            },
            hint=4,
        ),
        "offset of the head only": edited(
            program_to_tile,
            "The offset is the head's, not the block's.",
            {"(flat_head * Tr + block) * Br * d": "flat_head * Tr * Br * d"},
            hint=4,
        ),
        "batch forgotten": edited(
            program_to_tile,
            "The offset forgot the batch.",
            {"offset = (flat_head": "offset = (head"},
            hint=4,
        ),
    },
    hints=[
        "pid divided by Tr is the number of the head, counted through all batches; the rest is the "
        "place within the head.",
        "Place 0 gets the last block, Tr - 1.",
        "H / H_kv neighbouring query heads share a key head.",
        "Blocks before mine, times elements of a block. Python's integers do not overflow; a "
        "kernel's do.",
    ],
    explanation="In Triton, write `pid.to(tl.int64)` before the multiplication: a product of two "
    "32-bit integers is a 32-bit integer, and overflow is silent.",
)
