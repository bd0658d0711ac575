"""What the clock of a causal ring sees."""

import numpy as np

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A causal ring of $R$ ranks. The sequence is cut into equal chunks, numbered from its start; rank $r$
holds the queries, keys and values of the chunks `chunks[r]`, equally many on each rank. In step
$s = 0 \dots R - 1$ rank $r$ has the keys of rank $r - s$ (modulo $R$) in front of it.

A chunk of queries against an earlier chunk of keys is work 1, against itself $\frac12$ (a causal
triangle), against a later one 0. A step lasts as long as its busiest rank works. Return the
durations of all steps, as one array.

By hand first, for four ranks: `[[0], [1], [2], [3]]`, and `[[0, 7], [1, 6], [2, 5], [3, 4]]`. A
chunk of the second is half as long, so 4 of its units of work are 1 of the first.
"""


def ring_steps(chunks):
    """Duration of each step of a causal ring.

    Parameters
    ----------
    chunks : list of lists of int
        Numbers of the chunks that each rank holds.

    Returns
    -------
    float array (ranks,)
        Work of the busiest rank in each step.
    """
    ranks = len(chunks)
    steps = []
    for step in range(ranks):
        work = [0.0] * ranks
        for rank in range(ranks):
            for a in chunks[rank]:
                for b in chunks[(rank - step) % ranks]:
                    work[rank] += 1.0 if b < a else 0.5 if b == a else 0.0
        steps.append(max(work))
    return np.array(steps)


def by_token_pairs(chunks):
    """The same from a mask of tokens, two to a chunk, its diagonal counted half."""
    ranks = len(chunks)
    rows = [np.array([2 * c + t for c in held for t in (0, 1)]) for held in chunks]
    steps = []
    for step in range(ranks):
        work = []
        for rank in range(ranks):
            q, k = rows[rank][:, None], rows[(rank - step) % ranks]
            work.append(float(((q > k) + 0.5 * (q == k)).sum()) / 4)
        steps.append(max(work))
    return np.array(steps)


def case(label, chunks, hint=1):
    return Case(label, {"chunks": chunks}, hint=hint)


def mirrored(ranks):
    return [[r, 2 * ranks - 1 - r] for r in range(ranks)]


EXERCISE = Exercise(
    chapter="15",
    title="The clock of a causal ring",
    statement=STATEMENT,
    solution=ring_steps,
    oracle=by_token_pairs,
    returns=("steps",),
    cases=[
        case("one rank", [[0]]),
        case("two ranks, one chunk each", [[0], [1]]),
        case("two ranks in the other order", [[1], [0]], hint=2),
        case("four ranks, one chunk each", [[0], [1], [2], [3]]),
        case("four ranks, chunks out of order", [[2], [0], [3], [1]], hint=2),
        case("three ranks, two neighbouring chunks each", [[0, 1], [2, 3], [4, 5]], hint=3),
        case("three ranks, chunks dealt at random", [[0, 5], [1, 3], [2, 4]], hint=3),
        case("four ranks, mirrored chunks", mirrored(4), hint=3),
        case("eight ranks, mirrored chunks", mirrored(8), hint=3),
    ],
    wrong={
        "mean of the ranks": edited(
            ring_steps,
            """The mean of the ranks was taken. Nobody can pass on keys before all have finished:
            the busiest rank counts.""",
            {"max(work)": "sum(work) / ranks"},
        ),
        "no causal mask": edited(
            ring_steps,
            "Later keys were counted as work. A causal query does not see them.",
            {"0.5 if b == a else 0.0": "0.5 if b == a else 1.0"},
        ),
        "whole diagonal": edited(
            ring_steps,
            "A chunk against itself is a triangle: half the pairs are hidden.",
            {"0.5 if b == a else 0.0": "1.0 if b == a else 0.0"},
        ),
        "mask by rank": edited(
            ring_steps,
            """The numbers of the ranks were compared. What is early and what is late is said by the
            numbers of the chunks.""",
            {
                "1.0 if b < a else 0.5 if b == a else 0.0": (
                    "1.0 if (rank - step) % ranks < rank else 0.5 if step == 0 else 0.0"
                )
            },
        ),
        "ring the other way": edited(
            ring_steps,
            "Keys travel from rank r to r + 1: in step s, rank r has those of rank r - s.",
            {"(rank - step) % ranks": "(rank + step) % ranks"},
        ),
        "the last rank only": edited(
            ring_steps,
            "The work of the last rank was taken. Which rank is busiest depends on the chunks.",
            {"max(work)": "work[-1]"},
        ),
        "all steps together": edited(
            ring_steps,
            "Asked is the duration of each step, not their sum.",
            {"np.array(steps)": "sum(steps)"},
        ),
    },
    hints=[
        """For each step and each rank, add up the work over all pairs of one of its chunks and one
        of the chunks in front of it.""",
        """Compare the numbers of the chunks, a of the queries and b of the keys: is b < a, b = a or
        b > a?""",
        "A rank may hold several chunks: every one of its query chunks meets every key chunk.",
    ],
    explanation="""Contiguous: 0.5, 1, 1, 1, together 3.5 where a rank's fair share is 2. In every
    step after the first some rank has a whole block to do, and the others wait for it. Mirrored:
    2, 2, 2, 2 in quarters, together 2, the fair share: every rank holds one early and one late
    chunk, so all are equally busy in every step.""",
)
