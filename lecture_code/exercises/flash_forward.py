"""FlashAttention's forward pass, on the counted machine."""

import numpy as np

from ..attention import standard_attention_forward
from ..blocks import BlockSizes, tile_count
from ._counted import CountedCase
from ._exercise import Exercise, edited

STATEMENT = r"""
Write the forward pass of FlashAttention for one head. `Q`, `K`, `V` lie in HBM, and so do the
results `O`, `l`, `m`. You reach their numbers only through the chip:

- `chip.load(K, start, stop)` gives rows `start` to `stop` as a tile;
  `chip.load(l, start, stop, hold=False)` gives row statistics, which live in registers and take no
  room;
- `chip.alloc(shape)` gives a tile of zeros, `chip.free(tile, ...)` gives room back;
- `chip.matmul(A, B, out=tile)` multiplies, `chip.store(O, values, start)` writes rows.

Store $O = \mathrm{softmax}(QK^\top/\sqrt d)\,V$ and, for each row, $m_i = \max_j S_{ij}$ and
$\ell_i = \sum_j e^{S_{ij}-m_i}$. With `causal`, row $i$ sees the keys $j \le i + N_k - N_q$. A row
that sees no key gets $O_i = 0$, $\ell_i = 0$, $m_i = -\infty$.

Both loop orders pass: K, V blocks outside (Algorithm 1), or Q blocks outside (FlashAttention-2).
The check asserts

- the values;
- that the tiles on chip fit in $2B_cd + 2B_rd + B_rB_c$ elements;
- that at most $2N_kd + N_q(d+2) + T_cN_q(3d+4)$ elements move, and that all of Q, K, V is read;
- that the two products go through `chip.matmul`;
- that nothing of the size of $N \times N$, or of $N \times d$, is kept in numpy arrays beside the
  chip.
"""


def flash_forward(chip, Q, K, V, O, l, m, Br, Bc, causal):
    """Attention of one head, in blocks of Br rows of Q and Bc rows of K and V.

    Parameters
    ----------
    chip : SRAM
        Has room for tiles of K and V (Bc, d), Q and O (Br, d), S (Br, Bc).
    Q, K, V : arrays in HBM, (N_q, d), (N_k, d), (N_k, d)
        The inputs.
    O, l, m : arrays in HBM, (N_q, d), (N_q,), (N_q,)
        Store the results here.
    Br, Bc : int
        Block sizes.
    causal : bool
        Row i sees the keys up to i + N_k - N_q.
    """
    (N_q, d), N_k = Q.shape, len(K)
    for r0 in range(0, N_q, Br):
        rows = min(Br, N_q - r0)
        chip.store(O, np.zeros((rows, d)), r0)
        chip.store(l, np.zeros(rows), r0)
        chip.store(m, np.full(rows, -np.inf), r0)
    for c0 in range(0, N_k, Bc):
        c1 = min(c0 + Bc, N_k)
        Kj, Vj = chip.load(K, c0, c1), chip.load(V, c0, c1)
        for r0 in range(0, N_q, Br):
            r1 = min(r0 + Br, N_q)
            Qi, Oi = chip.load(Q, r0, r1), chip.load(O, r0, r1)
            li, mi = chip.load(l, r0, r1, hold=False), chip.load(m, r0, r1, hold=False)
            S = chip.alloc((r1 - r0, c1 - c0))
            chip.matmul(Qi, Kj.T, out=S)
            S /= np.sqrt(d)
            if causal:
                last = np.arange(r0, r1) + N_k - N_q
                S[np.arange(c0, c1) > last[:, None]] = -np.inf
            m_new = np.maximum(mi, S.max(axis=1))
            base = np.where(m_new == -np.inf, 0, m_new)
            P = np.exp(S - base[:, None], out=S)
            rescale = np.exp(mi - base)
            l_new = rescale * li + P.sum(axis=1)
            norm = np.where(l_new == 0, 1, l_new)
            Oi *= (rescale * li / norm)[:, None]
            Oi += chip.matmul(P, Vj) / norm[:, None]
            chip.store(O, Oi, r0)
            chip.store(l, l_new, r0)
            chip.store(m, m_new, r0)
            chip.free(Qi, Oi, S)
        chip.free(Kj, Vj)


def naive(chip, Q, K, V, O, l, m, Br, Bc, causal):
    """The whole N × N score matrix, or whole Q, K, V, was put on chip at once. Visit it tile by
    tile: only one block of each may be there at a time."""
    (N_q, d), N_k = Q.shape, len(K)
    q, k = chip.load(Q), chip.load(K)
    S = chip.alloc((N_q, N_k))
    chip.matmul(q, k.T, out=S)
    chip.free(q, k)
    S /= np.sqrt(d)
    if causal:
        S[np.arange(N_k) > (np.arange(N_q) + N_k - N_q)[:, None]] = -np.inf
    m_all = S.max(axis=1, initial=-np.inf)
    P = np.exp(S - np.where(m_all == -np.inf, 0, m_all)[:, None], out=S)
    l_all = P.sum(axis=1)
    v = chip.load(V)
    chip.store(O, chip.matmul(P, v) / np.where(l_all == 0, 1, l_all)[:, None])
    chip.store(l, l_all)
    chip.store(m, m_all)


def scores_kept_in_numpy(chip, Q, K, V, O, l, m, Br, Bc, causal):
    """The tiles went through the chip, and then all scores, N × N of them, were collected in a
    numpy array beside it. On a GPU there is no such place: only HBM, and writing there is
    traffic."""
    (N_q, d), N_k = Q.shape, len(K)
    S = np.full((N_q, N_k), -np.inf)
    for r0 in range(0, N_q, Br):
        Qi = chip.load(Q, r0, min(r0 + Br, N_q))
        for c0 in range(0, N_k, Bc):
            Kj = chip.load(K, c0, min(c0 + Bc, N_k))
            S[r0 : r0 + Br, c0 : c0 + Bc] = chip.matmul(Qi, Kj.T) / np.sqrt(d)
            chip.free(Kj)
        chip.free(Qi)
    if causal:
        S[np.arange(N_k) > (np.arange(N_q) + N_k - N_q)[:, None]] = -np.inf
    m_all = S.max(axis=1, initial=-np.inf)
    np.exp(S - np.where(m_all == -np.inf, 0, m_all)[:, None], out=S)
    l_all = S.sum(axis=1)
    for r0 in range(0, N_q, Br):
        P = S[r0 : r0 + Br]
        Oi = chip.alloc((len(P), d))
        for c0 in range(0, N_k, Bc):
            Vj = chip.load(V, c0, min(c0 + Bc, N_k))
            Oi += chip.matmul(P[:, c0 : c0 + Bc], Vj)
            chip.free(Vj)
        norm = l_all[r0 : r0 + Br]
        chip.store(O, Oi / np.where(norm == 0, 1, norm)[:, None], r0)
        chip.free(Oi)
    chip.store(l, l_all)
    chip.store(m, m_all)


def oracle(Q, K, V, Br, Bc, causal):
    """From the definition, with P whole."""
    run = standard_attention_forward(Q, K, V, causal=causal)
    return run.O, run.l, run.m


def needed(N_q, N_k, causal):
    """Inputs of which each number matters: all of them, unless some row sees no key."""
    if not (N_q and N_k):
        return ()
    return ("K", "V") if causal and N_k < N_q else None


def case(label, N_q, N_k, d, Br, Bc, causal=False, *, size=1.0, hint=1, fresh=False):
    """One case: its inputs, and the bounds that follow from the sizes."""

    def inputs(rng):
        # one decimal is easy to read
        Q, K, V = (rng.normal(0, 1, (n, d)).round(1) for n in (N_q, N_k, N_k))
        return {"Q": size * Q, "K": size * K, "V": V}

    capacity = BlockSizes(Br, Bc).on_chip_elems(d)
    keys_outside = 2 * N_k * d + tile_count(N_k, Bc) * N_q * (3 * d + 4)
    queries_outside = N_q * d + tile_count(N_q, Br) * 2 * N_k * d
    return CountedCase(
        f"{label}: N_q = {N_q}, N_k = {N_k}, d = {d}",
        inputs,
        outputs={"O": (N_q, d), "l": (N_q,), "m": (N_q,)},
        options={"Br": Br, "Bc": Bc, "causal": causal},
        capacity=capacity,
        traffic_at_most=N_q * (d + 2) + max(keys_outside, queries_outside),
        flop_at_least=0 if causal else 4 * N_q * N_k * d,
        workspace=2 * capacity,
        must_read=needed(N_q, N_k, causal),
        landmarks={"the whole N × N": N_q * N_k, "one whole N × d input": N_k * d},
        fresh=fresh,
        hint=hint,
        terms=2 * (N_k + d),
        span=2 * np.sqrt(d) * (4 * size) ** 2,
    )


EXERCISE = Exercise(
    chapter="08",
    title="FlashAttention, forward",
    statement=STATEMENT,
    solution=flash_forward,
    oracle=oracle,
    returns=("O", "l", "m"),
    cases=[
        case("one tile", 2, 2, 2, 2, 2),
        case("two blocks of keys", 2, 4, 2, 2, 2, hint=3),
        case("two blocks of queries", 4, 2, 2, 2, 2, hint=2),
        case("blocks that do not divide N", 5, 7, 2, 2, 3, hint=4),
        case("causal", 4, 4, 2, 2, 2, True, hint=5),
        case("causal, more keys than queries", 2, 5, 2, 2, 2, True, hint=5),
        case("causal, rows that see no key", 5, 2, 2, 2, 2, True, hint=6),
        case("huge scores", 4, 6, 4, 2, 2, size=40.0, hint=3),
        case("no keys", 3, 0, 2, 2, 2, hint=6),
        case("no queries", 0, 3, 2, 2, 2),
        case("blocks larger than N", 3, 5, 2, 8, 8, hint=4),
        case("large", 704, 704, 32, 32, 32, fresh=True, hint=7),
    ],
    wrong={
        "forgot to rescale": edited(
            flash_forward,
            """Nothing was rescaled when the maximum grew: l and O are sums of exp(S - m) with
            the old m. Multiply what is kept by exp(m_old - m_new) before adding the new block.""",
            {"np.exp(mi - base)": "np.where(mi == -np.inf, 0.0, 1.0)"},
        ),
        "rescaled the sum only": edited(
            flash_forward,
            """l was rescaled and O was not. O is a sum of the same exponentials, so it needs
            the same factor exp(m_old - m_new).""",
            {"(rescale * li / norm)": "(li / norm)"},
        ),
        "added to the old O": edited(
            flash_forward,
            """The new block was added to O as it was. The old O was divided by the old l: first
            make it unnormalised (times l_old), change its base, then divide by the new l.""",
            {"Oi *= (rescale * li / norm)[:, None]": "pass"},
        ),
        "normalises each step": edited(
            flash_forward,
            """O was divided by l at each block without taking the last division back: multiply by
            l_old first, or divide once at the end.""",
            {"(rescale * li / norm)": "(rescale / norm)"},
        ),
        "overflow": edited(
            flash_forward,
            "exp(S) was formed without subtracting the maximum: it overflows at a score of 710.",
            {"base = np.where(m_new == -np.inf, 0, m_new)": "base = 0 * np.maximum(m_new, 0)"},
        ),
        "forgot the scale": edited(
            flash_forward, "The scores were not divided by √d.", {"S /= np.sqrt(d)": "pass"}
        ),
        "drops the last keys": edited(
            flash_forward,
            "The last, shorter block of keys was left out: the number of blocks rounds up.",
            {"for c0 in range(0, N_k, Bc)": "for c0 in range(0, N_k - Bc + 1, Bc)"},
        ),
        "drops the last queries": edited(
            flash_forward,
            "The last, shorter block of queries was left out: the number of blocks rounds up.",
            {
                "for r0 in range(0, N_q, Br):\n            r1": (
                    "for r0 in range(0, N_q - Br + 1, Br):\n            r1"
                ),
            },
        ),
        "causal edge": edited(
            flash_forward,
            "The key on the diagonal was hidden: a row sees its own key, hide j > i, not j >= i.",
            {"np.arange(c0, c1) > last": "np.arange(c0, c1) >= last"},
        ),
        "causal from the top left": edited(
            flash_forward,
            """The mask is aligned at the top left. The last query sees the last key, so row i
            stands at key i + N_k - N_q.""",
            {"np.arange(r0, r1) + N_k - N_q": "np.arange(r0, r1)"},
        ),
        "NaN in rows without keys": edited(
            flash_forward,
            """A row that has seen no key has m = -inf, and -inf - (-inf) is NaN: subtract 0
            there, and do not divide by l = 0.""",
            {"np.where(m_new == -np.inf, 0, m_new)": "m_new"},
        ),
        "N × N on chip": naive,
        "N × N in numpy": scores_kept_in_numpy,
        "never frees": edited(
            flash_forward,
            "Tiles were not given back: free Q, O and S after each block of queries.",
            {"chip.free(Qi, Oi, S)": "pass"},
        ),
    },
    hints=[
        """Two nested loops over blocks. Load a tile, compute with it, store the rows of the result,
        free the tile.""",
        """Keep three things for each row in HBM: O, l and m. Before the first block they are 0,
        0 and -inf.""",
        """With m_new = max(m, row maximum of S): P = exp(S - m_new), r = exp(m - m_new),
        l_new = r l + row sum of P. O was divided by l, so O_new = (r l O + P V) / l_new.""",
        "The last block may be short: stop = min(start + size, N).",
        """Hide the scores with j > i + N_k - N_q by setting them to -inf before the row maximum is
        taken.""",
        """A row that has seen no key has m_new = -inf and l_new = 0. Subtract 0 in place of
        -inf, and divide by 1 in place of 0.""",
        """Nothing may grow with N but the row statistics: no list of tiles, no array with N rows of
        scores, no whole O. The result goes to HBM block by block.""",
    ],
    explanation="""The update of (m, l) is the one of chapter 7, and O is carried along as one
    more sum over the same exponentials. In FlashAttention-2's order Q and O stay on chip while
    K and V stream by: O is then stored once, and one division at the end is enough.""",
)
