"""FlashAttention-2's order: a block of Q stays on chip until its rows of O are finished."""

import numpy as np

from ._counted import CountedCase
from ._exercise import Exercise, edited

STATEMENT = r"""
Write the forward pass in FlashAttention-2's order. $Q$ ($N_q \times d$), $K$ and $V$
($N_k \times d$) lie in HBM. So do the empty $O$ ($N_q \times d$) and `lse` ($N_q$), which you fill
with $\mathrm{softmax}(QK^\top/\sqrt d)\,V$ and the natural log-sum-exp of each row of scores.

- Outer loop over blocks of $B_r$ rows of $Q$, inner loop over blocks of $B_c$ rows of $K$ and
  $V$. The last of each may be short.
- Each block of $Q$ is loaded once, each row of $O$ and `lse` is stored once. No mask; there is at
  least one key.
- The running output is divided by $\ell$ once, after the last block of keys.
- The chip holds $2B_rd + 2B_cd + B_rB_c$ elements: $Q_i$, $O_i$, $K_j$, $V_j$ and one tile of
  scores.
"""


def flash2_order(chip, Q, K, V, O, lse, Br, Bc):
    """Attention with the loop over Q outside; stores O and lse.

    Parameters
    ----------
    chip : SRAM
        Has load(array, start, stop), store(array, values, start), alloc(shape), free(*tiles)
        and matmul(a, b).
    Q, K, V : arrays in HBM, (N_q, d), (N_k, d), (N_k, d)
    O, lse : arrays in HBM, (N_q, d) and (N_q,), to be stored
    Br, Bc : int
        Rows in a block of Q, rows in a block of K and V.
    """
    (N_q, d), N_k = Q.shape, len(K)
    for r in range(0, N_q, Br):
        Qi = chip.load(Q, r, min(r + Br, N_q))
        Oi = chip.alloc(Qi.shape)
        m, l = np.full(len(Qi), -np.inf), np.zeros(len(Qi))
        for c in range(0, N_k, Bc):
            Kj, Vj = (chip.load(x, c, min(c + Bc, N_k)) for x in (K, V))
            P = chip.alloc((len(Qi), len(Kj)))
            P += chip.matmul(Qi, Kj.T) / np.sqrt(d)
            m_new = np.maximum(m, P.max(axis=1))
            np.exp(P - m_new[:, None], out=P)
            keep = np.exp(m - m_new)
            l = keep * l + P.sum(axis=1)
            Oi *= keep[:, None]
            Oi += chip.matmul(P, Vj)
            m = m_new
            chip.free(Kj, Vj, P)
        chip.store(O, Oi / l[:, None], r)
        chip.store(lse, m + np.log(l), r)
        chip.free(Qi, Oi)


def from_the_definition(Q, K, V, Br, Bc):
    """O and lse from the whole matrix of scores."""
    S = np.einsum("id,jd->ij", Q, K) / np.sqrt(Q.shape[1])
    top = np.sort(S, axis=1)[:, -1:]
    weight = np.exp(S - top)
    total = weight.sum(axis=1, keepdims=True)
    return np.einsum("ij,jd->id", weight / total, V), (top + np.log(total))[:, 0]


def keys_outside(chip, Q, K, V, O, lse, Br, Bc):
    """The loop over K is outside: half-finished rows of O leave the chip and come back for every
    block of keys."""
    (N_q, d), N_k = Q.shape, len(K)
    m, l = np.full(N_q, -np.inf), np.zeros(N_q)
    for c in range(0, N_k, Bc):
        Kj, Vj = (chip.load(x, c, min(c + Bc, N_k)) for x in (K, V))
        for r in range(0, N_q, Br):
            rows = slice(r, min(r + Br, N_q))
            Qi = chip.load(Q, r, rows.stop)
            Oi = chip.load(O, r, rows.stop) if c else chip.alloc(Qi.shape)
            P = chip.alloc((len(Qi), len(Kj)))
            P += chip.matmul(Qi, Kj.T) / np.sqrt(d)
            m_new = np.maximum(m[rows], P.max(axis=1))
            np.exp(P - m_new[:, None], out=P)
            keep = np.exp(m[rows] - m_new)
            l[rows], m[rows] = keep * l[rows] + P.sum(axis=1), m_new
            Oi *= keep[:, None]
            Oi += chip.matmul(P, Vj)
            chip.store(O, Oi / l[rows, None] if c + Bc >= N_k else Oi, r)
            chip.free(Qi, Oi, P)
        chip.free(Kj, Vj)
    chip.store(lse, m + np.log(l))


def all_scores_of_a_block(chip, Q, K, V, O, lse, Br, Bc):
    """All scores of a block of Q were held at once. Only one tile of Br x Bc fits: carry m, l
    and the running output instead."""
    (N_q, d), N_k = Q.shape, len(K)
    for r in range(0, N_q, Br):
        Qi = chip.load(Q, r, min(r + Br, N_q))
        P = chip.alloc((len(Qi), N_k))
        for c in range(0, N_k, Bc):
            Kj = chip.load(K, c, min(c + Bc, N_k))
            P[:, c : c + Bc] = chip.matmul(Qi, Kj.T) / np.sqrt(d)
            chip.free(Kj)
        m = P.max(axis=1)
        np.exp(P - m[:, None], out=P)
        l = P.sum(axis=1)
        Oi = chip.alloc(Qi.shape)
        for c in range(0, N_k, Bc):
            Vj = chip.load(V, c, min(c + Bc, N_k))
            Oi += chip.matmul(P[:, c : c + Bc], Vj)
            chip.free(Vj)
        chip.store(O, Oi / l[:, None], r)
        chip.store(lse, m + np.log(l), r)
        chip.free(Qi, Oi, P)


def head(N_q, N_k, d, size=1.0):
    """Makes random inputs; a large ``size`` makes large scores."""

    def make(rng):
        shapes = {"Q": (N_q, d), "K": (N_k, d), "V": (N_k, d)}
        return {name: rng.normal(0, 1 if name == "V" else size, s) for name, s in shapes.items()}

    return make


def two_keys(rng):
    """Scores 0 and ln 3, values 10 and 2: the example of the chapter."""
    return {
        "Q": np.array([[1.0]]),
        "K": np.array([[0.0], [np.log(3)]]),
        "V": np.array([[10.0], [2.0]]),
    }


def case(label, inputs, N_q, N_k, d, Br, Bc, **more):
    blocks = -(-N_q // Br)
    tile = 2 * Br * d + 2 * Bc * d + Br * Bc
    return CountedCase(
        label,
        inputs,
        outputs={"O": (N_q, d), "lse": (N_q,)},
        options={"Br": Br, "Bc": Bc},
        capacity=tile,
        traffic_at_most=N_q * (2 * d + 1) + blocks * 2 * N_k * d,
        flop_at_least=4 * N_q * N_k * d,
        workspace=2 * tile + 16 * Br + 1024,
        landmarks={"N × N": N_q * N_k, "Br × N": Br * N_k},
        terms=N_k + d,
        **more,
    )


EXERCISE = Exercise(
    chapter="08",
    title="FlashAttention-2's order",
    statement=STATEMENT,
    solution=flash2_order,
    oracle=from_the_definition,
    returns=("O", "lse"),
    cases=[
        case("one query, two keys, one key a block", two_keys, 1, 2, 1, 1, 1, hint=2),
        case("two blocks of Q, two blocks of K", head(4, 4, 2), 4, 4, 2, 2, 2, hint=2),
        case("blocks that do not divide, 5 queries, 7 keys", head(5, 7, 3), 5, 7, 3, 2, 3),
        case("blocks larger than the problem", head(3, 2, 2), 3, 2, 2, 8, 8),
        case("large scores", head(4, 6, 4, size=60.0), 4, 6, 4, 2, 2, hint=3, span=20_000),
        case("200 queries, 333 keys", head(200, 333, 16), 200, 333, 16, 16, 8, hint=4, fresh=True),
    ],
    wrong={
        "inverse of the factor": edited(
            flash2_order,
            "The running output was multiplied by exp(m_new - m), the inverse of the factor. "
            "This is how the paper prints line 10; the exponent -1 there is a misprint.",
            {"Oi *= keep[:, None]": "Oi *= np.where(keep > 0, 1 / keep, 0)[:, None]"},
        ),
        "forgot to rescale O": edited(
            flash2_order,
            "l was rescaled, the running output was not. Both were measured against the old "
            "maximum.",
            {"            Oi *= keep[:, None]\n": ""},
        ),
        "forgot to rescale l": edited(
            flash2_order,
            "The running output was rescaled, l was not. Both were measured against the old "
            "maximum.",
            {"keep * l": "l"},
        ),
        "divided at every block": edited(
            flash2_order,
            "The output was divided by l at every block and not multiplied back. Divide once, "
            "after the last block.",
            {
                "            m = m_new": "            Oi /= l[:, None]\n            m = m_new",
                "Oi / l[:, None], r": "Oi, r",
            },
        ),
        "forgot the maximum in lse": edited(
            flash2_order,
            "lse lacks the maximum: l is the sum of exp(s - m), so the log-sum-exp is m + ln(l).",
            {"m + np.log(l)": "np.log(l)"},
        ),
        "base 2": edited(
            flash2_order,
            "lse has a logarithm to base 2 in it; it is natural.",
            {"np.log(l)": "np.log2(l)"},
        ),
        "forgot the scale": edited(
            flash2_order,
            "The scores were not divided by the square root of d.",
            {" / np.sqrt(d)": ""},
        ),
        "overflow": edited(
            flash2_order,
            "exp of a bare score overflows. Subtract the running maximum first.",
            {"np.maximum(m, P.max(axis=1))": "np.zeros(len(Qi))"},
        ),
        "ragged tail of K": edited(
            flash2_order,
            "The last, shorter block of keys was left out.",
            {"range(0, N_k, Bc)": "range(0, max(N_k - Bc + 1, 1), Bc)"},
        ),
        "keys outside": keys_outside,
        "all scores of a block": all_scores_of_a_block,
    },
    hints=[
        "Allocate a tile for the running output beside Qi. Inside the inner loop nothing is "
        "stored.",
        "When the maximum of a row grows, both l and the running output shrink by exp(m_old - "
        "m_new).",
        "Subtract the new maximum before exp. The first block meets m = -inf, and exp(-inf) = 0 "
        "does the right thing.",
        "Free Kj, Vj and the tile of scores before the next block; write exp(...) into the tile "
        "with out=.",
    ],
    explanation=(
        "Compare with Algorithm 1: no load of O, one store, one division. The price is that K "
        "and V are read again for every block of Q."
    ),
)
