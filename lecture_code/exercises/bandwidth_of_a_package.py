"""From lines and layers to bandwidth and bytes."""

from fractions import Fraction

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A GPU's package has `sites` places for memory stacks, `stacks` of which are in use. A stack talks to
the chip over `lines_per_stack` data lines, each carrying `bits_per_s` bits a second, and holds
`stack_bytes`. It is made of layers of `layer_bits` bits each.

Return the bandwidth of the package in bytes a second, that of one stack, and the layers of a stack
(an integer; `stack_bytes` is a whole number of layers).

Then take the H100 SXM: 6 sites, 5 stacks of 1,024 lines at 5.2375 Gb/s, 16 GB a stack, layers of
16 Gb. What would the sixth stack have added?
"""


def bandwidth_of_a_package(sites, stacks, lines_per_stack, bits_per_s, stack_bytes, layer_bits):
    """Bandwidth of a package and of a stack, and the layers of a stack.

    Parameters
    ----------
    sites, stacks : int
        Places for stacks, and stacks in use.
    lines_per_stack : int
        Data lines of one stack.
    bits_per_s : float
        Bits a second on one line.
    stack_bytes, layer_bits : int
        Capacity of a stack in bytes, and of a layer in bits.

    Returns
    -------
    package_bytes_per_s, stack_bytes_per_s : float
    layers : int
    """
    stack_bytes_per_s = lines_per_stack * bits_per_s / 8
    layers = 8 * stack_bytes // layer_bits
    return stacks * stack_bytes_per_s, stack_bytes_per_s, layers


def in_fractions(sites, stacks, lines_per_stack, bits_per_s, stack_bytes, layer_bits):
    """The same from the whole width of the bus, in exact fractions."""
    bus_bits_per_s = Fraction(bits_per_s) * (stacks * lines_per_stack)
    bits = 8 * stack_bytes
    layers = sum(1 for _ in range(0, bits, layer_bits))
    return float(bus_bits_per_s / 8), float(bus_bits_per_s / 8 / stacks), layers


def case(label, *values, hint=1):
    names = ("sites", "stacks", "lines_per_stack", "bits_per_s", "stack_bytes", "layer_bits")
    return Case(label, dict(zip(names, values)), hint=hint)


EXERCISE = Exercise(
    chapter="04",
    title="Bandwidth of a package",
    statement=STATEMENT,
    solution=bandwidth_of_a_package,
    oracle=in_fractions,
    returns=("package_bytes_per_s", "stack_bytes_per_s", "layers"),
    cases=[
        case("one stack of 8 lines", 1, 1, 8, 2.0, 4, 8),
        case("two of three sites in use", 3, 2, 16, 4.0, 6, 16, hint=2),
        case("H100 SXM", 6, 5, 1024, 5.2375e9, 16 * 10**9, 16 * 10**9, hint=2),
        case("A100 40GB", 6, 5, 1024, 2.43e9, 8 * 10**9, 8 * 10**9, hint=2),
        case("layers of 24 Gb", 6, 6, 1024, 6.25e9, 24 * 10**9, 24 * 10**9, hint=3),
    ],
    wrong={
        "bits as bytes": edited(
            bandwidth_of_a_package,
            "The lines carry bits. Eight of them are a byte.",
            {"bits_per_s / 8": "bits_per_s"},
        ),
        "every site counted": edited(
            bandwidth_of_a_package,
            "Every site was counted. Only the stacks in use have lines that carry data.",
            {"stacks * stack_bytes_per_s": "sites * stack_bytes_per_s"},
            hint=2,
        ),
        "one stack": edited(
            bandwidth_of_a_package,
            "The package's bandwidth is that of one stack. All stacks work at the same time.",
            {"stacks * stack_bytes_per_s": "stack_bytes_per_s"},
            hint=2,
        ),
        "one line": edited(
            bandwidth_of_a_package,
            "That is a single line. A stack has lines_per_stack of them, side by side.",
            {"lines_per_stack * bits_per_s": "bits_per_s"},
        ),
        "layers in bytes": edited(
            bandwidth_of_a_package,
            "Bytes of a stack were divided by bits of a layer. Use one unit for both.",
            {"8 * stack_bytes // layer_bits": "stack_bytes // layer_bits"},
            hint=3,
        ),
        "layers of the package": edited(
            bandwidth_of_a_package,
            "These are the layers of all stacks. Asked are those of one.",
            {"8 * stack_bytes // layer_bits": "stacks * 8 * stack_bytes // layer_bits"},
            hint=3,
        ),
    },
    hints=[
        "A stack carries lines_per_stack x bits_per_s bits a second. How many bytes are that?",
        "Stacks work side by side: add them up, but only those in use.",
        "A stack has 8 x stack_bytes bits.",
    ],
    explanation="""The H100 SXM gets 3,352 GB/s from 5 stacks of 670.4 GB/s, each of 8 layers; a
    sixth would have added a fifth. Datasheets round to 3.35 TB/s.""",
)
