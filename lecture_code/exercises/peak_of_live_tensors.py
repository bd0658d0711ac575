"""The peak of memory, from a list of what each step makes and frees."""

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A program is a list of steps `(name, made, freed)`. `made` maps the tensors that the step makes to
their bytes; `freed` lists the tensors that are given back when the step has **ended**. During a
step, all that was alive before it and all that it makes is alive at once: an operation's input
cannot go before its output is there.

Return `peak`, the largest number of bytes alive at once, and `where`, the name of the step that
reaches it (the first, if several do).
"""


def peak_of_live_tensors(steps):
    """Largest sum of live tensors, and the first step that reaches it.

    Parameters
    ----------
    steps : list of (str, dict of str to int, list of str)
        Name of the step, tensors made with their bytes, tensors freed when it has ended.

    Returns
    -------
    peak : int
    where : str
    """
    alive = {}
    peak, where = -1, ""
    for name, made, freed in steps:
        alive.update(made)
        now = sum(alive.values())
        if now > peak:
            peak, where = now, name
        for tensor in freed:
            del alive[tensor]
    return peak, where


def oracle(steps):
    """By the life of each tensor: the steps from its making to its freeing."""
    sizes = [0] * len(steps)
    for i, (_, made, _) in enumerate(steps):
        for tensor, size in made.items():
            ends = (j for j in range(i, len(steps)) if tensor in steps[j][2])
            for j in range(i, next(ends, len(steps) - 1) + 1):
                sizes[j] += size
    return max(sizes), steps[sizes.index(max(sizes))][0]


def attention_steps(P, T, backward=True):
    """Plain attention with dropout: P bytes for an N x N tensor, T for an N x d one."""
    steps = [
        ("inputs", {"Q": T, "K": T, "V": T, "dO": T}, []),
        ("scores", {"S": P}, []),
        ("softmax", {"P": P}, []),
        ("dropout", {"mask": P // 2, "dropped": P}, []),
        ("output", {"O": T}, ["S"]),
    ]
    if backward:
        steps += [
            ("product backward", {"dV": T, "d dropped": P}, ["dropped"]),
            ("dropout backward", {"dP": P}, ["d dropped", "mask"]),
            ("softmax backward", {"P * dP": P, "dS": P}, ["P", "dP", "P * dP"]),
            ("scores backward", {"dQ": T, "dK": T}, ["dS", "O"]),
        ]
    return steps


def case(label, steps, hint=1):
    """A program."""
    return Case(label, {"steps": steps}, hint=hint)


EXERCISE = Exercise(
    chapter="13",
    title="The peak of live tensors",
    statement=STATEMENT,
    solution=peak_of_live_tensors,
    oracle=oracle,
    returns=("peak", "where"),
    cases=[
        case("two steps", [("a", {"x": 3}, []), ("b", {"y": 4}, ["x"])]),
        case("a chain", [("a", {"x": 5}, []), ("b", {"y": 5}, ["x"]), ("c", {"z": 4}, ["y"])]),
        case("a tie", [("a", {"x": 5}, ["x"]), ("b", {"y": 5}, ["y"]), ("c", {"z": 1}, [])], 2),
        case("made and freed in a step", [("a", {"x": 2, "t": 9}, ["t"]), ("b", {"y": 8}, [])], 2),
        case("attention, forward only", attention_steps(4096, 64, backward=False)),
        case("attention, both passes", attention_steps(4096, 64)),
    ],
    wrong={
        "freed too early": edited(
            peak_of_live_tensors,
            """Tensors were freed before the step's results were made. An operation reads its
            inputs while it writes its output: both are alive.""",
            {
                """        alive.update(made)
        now = sum(alive.values())""": """        for tensor in freed:
            alive.pop(tensor, None)
        alive.update({t: b for t, b in made.items() if t not in freed})
        now = sum(alive.values())""",
                "            del alive[tensor]": "            alive.pop(tensor, None)",
            },
        ),
        "never freed": edited(
            peak_of_live_tensors,
            "Nothing was freed: that is the sum of all tensors ever made.",
            {"            del alive[tensor]": "            pass"},
        ),
        "what is left": edited(
            peak_of_live_tensors,
            "That is what is alive in the last step, not the largest sum on the way.",
            {"if now > peak:": "if True:"},
        ),
        "the last of several": edited(
            peak_of_live_tensors,
            "Two steps reach the peak; asked for is the first.",
            {"if now > peak:": "if now >= peak:"},
        ),
        "one step's own": edited(
            peak_of_live_tensors,
            "Only the tensors made in the step were added; those made before are still alive.",
            {"sum(alive.values())": "sum(made.values())"},
        ),
    },
    hints=[
        "Keep a dict of what is alive. Add, then measure, then free.",
        "Compare with `>`: a later step that only equals the peak does not replace it.",
    ],
    explanation="""For plain attention the peak is not in the forward pass, and not where P is
    stored: it is inside softmax's backward, where four N x N tensors meet.""",
)
