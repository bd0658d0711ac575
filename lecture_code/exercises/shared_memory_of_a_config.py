"""What a tile configuration takes of the shared memory, and the deepest prefetch that fits."""

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A program of the forward kernel keeps in shared memory one tile of $Q$ (`BLOCK_M` rows) and, for
each of `stages` stages of prefetch, one tile of $K$ and one of $V$ (`BLOCK_N` rows each). All
rows have `d` numbers of `element_bytes` bytes, and `d` is rounded up to a power of two first,
because tiles come in no other size.

Return the bytes for one stage, and the largest number of stages, at most 4, whose bytes are no
more than `limit_bytes`: 0 if not even one stage fits.
"""


def shared_memory_of_a_config(BLOCK_M, BLOCK_N, d, element_bytes, limit_bytes):
    """Bytes of a configuration with one stage, and the stages that fit.

    Parameters
    ----------
    BLOCK_M, BLOCK_N : int
        Rows of the tile of Q, and of those of K and V.
    d : int
        Head dimension.
    element_bytes : int
        2 for 16-bit numbers, 4 for float32.
    limit_bytes : int
        Shared memory that one program may use.

    Returns
    -------
    one_stage_bytes : int
    stages : int
        0 to 4.
    """
    padded = 1
    while padded < d:
        padded *= 2
    row_bytes = padded * element_bytes
    q_bytes = BLOCK_M * row_bytes
    stage_bytes = 2 * BLOCK_N * row_bytes
    room = max(0, limit_bytes - q_bytes) // stage_bytes
    return q_bytes + stage_bytes, min(4, room)


def by_trying(BLOCK_M, BLOCK_N, d, element_bytes, limit_bytes):
    """Count up until it does not fit."""
    columns = 2 ** (d - 1).bit_length()
    sizes = [columns * element_bytes * (BLOCK_M + 2 * s * BLOCK_N) for s in range(1, 5)]
    return sizes[0], sum(size <= limit_bytes for size in sizes)


def case(label, *values, hint=1):
    names = ("BLOCK_M", "BLOCK_N", "d", "element_bytes", "limit_bytes")
    return Case(label, dict(zip(names, values)), hint=hint)


T4, L4, A100, H100 = 65_536, 101_376, 166_912, 232_448

EXERCISE = Exercise(
    chapter="12",
    title="What fits in shared memory",
    statement=STATEMENT,
    solution=shared_memory_of_a_config,
    oracle=by_trying,
    returns=("one_stage_bytes", "stages"),
    cases=[
        case("small tiles on a T4", 64, 32, 64, 2, T4),
        case("exactly full", 128, 64, 128, 2, T4),
        case("A100, d = 128", 128, 64, 128, 2, A100, hint=2),
        case("A100, d = 256", 128, 64, 256, 2, A100, hint=2),
        case("H100, d = 256", 128, 64, 256, 2, H100, hint=2),
        case("d = 80 is computed as 128", 128, 64, 80, 2, L4, hint=3),
        case("float32 on an A100", 64, 64, 128, 4, A100, hint=1),
        case("one byte too little", 64, 32, 64, 2, 16_383, hint=4),
        case("not even Q fits", 128, 16, 256, 4, T4, hint=4),
        case("plenty of room", 16, 16, 16, 2, H100, hint=4),
    ],
    wrong={
        "V forgotten": edited(
            shared_memory_of_a_config,
            "One tile a stage: K and V are both prefetched.",
            {"2 * BLOCK_N * row_bytes": "BLOCK_N * row_bytes"},
        ),
        "Q in every stage": edited(
            shared_memory_of_a_config,
            "The tile of Q was counted once a stage. It is loaded once and stays.",
            {
                "max(0, limit_bytes - q_bytes) // stage_bytes": (
                    "limit_bytes // (q_bytes + stage_bytes)"
                )
            },
            hint=2,
        ),
        "Q forgotten": edited(
            shared_memory_of_a_config,
            "The tile of Q was forgotten.",
            {"q_bytes = BLOCK_M * row_bytes": "q_bytes = 0"},
        ),
        "d as it is": edited(
            shared_memory_of_a_config,
            "The head dimension was not rounded up to a power of two.",
            {"row_bytes = padded * element_bytes": "row_bytes = d * element_bytes"},
            hint=3,
        ),
        "elements, not bytes": edited(
            shared_memory_of_a_config,
            "Elements were counted, not bytes.",
            {"padded * element_bytes": "padded"},
        ),
        "float32 scores": edited(
            shared_memory_of_a_config,
            "The scores were counted too. They live in registers.",
            {"q_bytes = BLOCK_M * row_bytes": "q_bytes = BLOCK_M * (row_bytes + 4 * BLOCK_N)"},
        ),
        "no upper bound": edited(
            shared_memory_of_a_config,
            "More than 4 stages were returned.",
            {"min(4, room)": "room"},
            hint=4,
        ),
        "negative room": edited(
            shared_memory_of_a_config,
            "The room was negative where Q alone is too large: return 0 stages.",
            {"max(0, limit_bytes - q_bytes)": "(limit_bytes - q_bytes)"},
            hint=4,
        ),
    },
    hints=[
        "A row takes d numbers; Q has BLOCK_M rows, a stage 2 BLOCK_N.",
        "Q is there once, whatever the number of stages. Divide the rest by those of a stage.",
        "80 becomes 128, 128 stays 128.",
        "Clip the answer to 0 to 4.",
    ],
    explanation="The compiler adds a little of its own (barriers, room to change a layout), so a "
    "table that is full to the last byte by this count is checked by compiling it.",
)
