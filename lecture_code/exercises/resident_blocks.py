"""How many blocks an SM holds at once, and which resource says so."""

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
An SM keeps several blocks at once if there is room for them. It has room for 64 warps of 32
threads, 65,536 registers, `sm_shared_bytes` of shared memory, and never holds more than 32 blocks.

A block has `threads` threads; a warp that is not full takes the room of a full one. Each thread,
also one that is only there to fill the warp, takes `registers` registers, and each block
`shared_bytes` (perhaps 0). Return the blocks that fit, and the warps that they make.

(Real hardware also rounds registers and shared memory up to its own grain; here it does not.)
"""


def resident_blocks(threads, registers, shared_bytes, sm_shared_bytes):
    """Blocks that an SM holds at once, and their warps.

    Parameters
    ----------
    threads : int
        Threads of a block.
    registers : int
        Registers of a thread.
    shared_bytes : int
        Shared memory of a block; may be 0.
    sm_shared_bytes : int
        Shared memory of the SM.

    Returns
    -------
    blocks, warps : int
    """
    warps_per_block = -(-threads // 32)
    room = [32, 64 // warps_per_block, 65_536 // (32 * warps_per_block * registers)]
    if shared_bytes:
        room.append(sm_shared_bytes // shared_bytes)
    blocks = min(room)
    return blocks, blocks * warps_per_block


def one_by_one(threads, registers, shared_bytes, sm_shared_bytes):
    """Put blocks in until one resource is full."""
    warps = (threads + 31) // 32
    blocks = 0
    while True:
        more = blocks + 1
        fits = more <= 32 and more * warps <= 64
        fits = fits and more * warps * 32 * registers <= 65_536
        if not (fits and more * shared_bytes <= sm_shared_bytes):
            return blocks, blocks * warps
        blocks = more


def case(label, *values, hint=1):
    names = ("threads", "registers", "shared_bytes", "sm_shared_bytes")
    return Case(label, dict(zip(names, values)), hint=hint)


KIB = 1024

EXERCISE = Exercise(
    chapter="04",
    title="How many blocks fit",
    statement=STATEMENT,
    solution=resident_blocks,
    oracle=one_by_one,
    returns=("blocks", "warps"),
    cases=[
        case("the SM is full of warps", 256, 32, 0, 228 * KIB),
        case("small blocks", 32, 16, 0, 228 * KIB, hint=3),
        case("registers decide", 256, 128, 0, 228 * KIB, hint=1),
        case("a warp that is not full", 33, 32, 0, 228 * KIB, hint=2),
        case("padding threads take registers", 40, 255, 0, 228 * KIB, hint=2),
        case("shared memory decides", 128, 32, 48 * KIB, 228 * KIB, hint=1),
        case("a tile of attention", 128, 168, 96 * KIB, 228 * KIB, hint=1),
        case("it does not fit at all", 128, 32, 229 * KIB, 228 * KIB, hint=1),
    ],
    wrong={
        "threads only": edited(
            resident_blocks,
            "Registers and shared memory were forgotten. The scarcest resource decides.",
            {"blocks = min(room)": "blocks = min(room[:2])"},
        ),
        "shared memory forgotten": edited(
            resident_blocks,
            "Shared memory was forgotten: each block needs its own.",
            {"if shared_bytes:": "if False:"},
        ),
        "registers of one thread": edited(
            resident_blocks,
            "Registers were counted once a block. Every thread has its own.",
            {"65_536 // (32 * warps_per_block * registers)": "65_536 // registers"},
        ),
        "warps rounded down": edited(
            resident_blocks,
            "Warps were rounded down. 33 threads take two warps.",
            {"-(-threads // 32)": "max(threads // 32, 1)"},
            hint=2,
        ),
        "registers of real threads only": edited(
            resident_blocks,
            "The threads that fill up the last warp take registers too.",
            {"(32 * warps_per_block * registers)": "(threads * registers)"},
            hint=2,
        ),
        "no limit of blocks": edited(
            resident_blocks,
            "An SM never holds more than 32 blocks, however small they are.",
            {"room = [32, 64": "room = [64, 64"},
            hint=3,
        ),
        "largest of the limits": edited(
            resident_blocks,
            "The most generous limit was taken. All of them hold at once: take the smallest.",
            {"blocks = min(room)": "blocks = max(room)"},
        ),
    },
    hints=[
        "Ask each resource how many blocks it has room for. The smallest answer counts.",
        "Round threads up to whole warps first, and give every thread of them its registers.",
        "Do not forget the fixed limit of 32 blocks.",
    ],
    explanation="""A tile of attention that takes 96 KB fits twice, which is 8 of 64 warps: kernels
    with large tiles run with few warps and hide latency by asking early instead.""",
)
