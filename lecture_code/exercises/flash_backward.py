"""FlashAttention's backward pass, on the counted machine."""

import numpy as np

from ..attention import standard_attention_backward, standard_attention_forward
from ..blocks import BlockSizes, tile_count
from ._counted import CountedCase
from ._exercise import Exercise, edited

STATEMENT = r"""
Write the backward pass of FlashAttention for one head, without a mask. `Q`, `K`, `V`, the output
`O`, its gradient `dO` and the row statistics `l`, `m` of the forward lie in HBM; store `dQ`, `dK`,
`dV`. The chip works as in the forward exercise: `load`, `store`, `alloc`, `free`, `matmul`, and
`hold=False` for `l` and `m`.

$P$ was not kept. Compute each tile again, $P_{ij} = e^{S_{ij} - m_i} / \ell_i$ with
$S = QK^\top/\sqrt d$, and from it

$$dV = P^\top dO, \quad dP = dO\,V^\top, \quad D_i = \sum_k dO_{ik} O_{ik},$$

$$dS = P \circ (dP - D), \quad dQ = dS\,K / \sqrt d, \quad dK = dS^\top Q / \sqrt d .$$

The check asserts

- the values;
- that the tiles on chip fit in $4B_cd + 4B_rd + 2B_rB_c$ elements;
- that at most $4N_kd + N_qd + T_cN_q(5d+2)$ elements move, and that every input is read;
- that the five products go through `chip.matmul`;
- that nothing of the size of $N \times N$, or of $N \times d$, is kept in numpy arrays beside the
  chip.
"""


def flash_backward(chip, Q, K, V, O, dO, l, m, dQ, dK, dV, Br, Bc):
    """Gradients of attention, in blocks of Br rows of Q and Bc rows of K and V.

    Parameters
    ----------
    chip : SRAM
        Has room for K, V, dK, dV (Bc, d), Q, O, dO, dQ (Br, d) and two tiles (Br, Bc).
    Q, K, V, O, dO : arrays in HBM, (N_q, d) or (N_k, d)
        Inputs and output of the forward, gradient of the output.
    l, m : arrays in HBM, (N_q,)
        Row statistics of the forward.
    dQ, dK, dV : arrays in HBM, shapes of Q, K, V
        Store the results here.
    Br, Bc : int
        Block sizes.
    """
    (N_q, d), N_k = Q.shape, len(K)
    for c0 in range(0, N_k, Bc):
        c1 = min(c0 + Bc, N_k)
        Kj, Vj = chip.load(K, c0, c1), chip.load(V, c0, c1)
        dKj, dVj = chip.alloc((c1 - c0, d)), chip.alloc((c1 - c0, d))
        for r0 in range(0, N_q, Br):
            r1 = min(r0 + Br, N_q)
            Qi, Oi, dOi = (chip.load(x, r0, r1) for x in (Q, O, dO))
            dQi = chip.alloc((r1 - r0, d)) if c0 == 0 else chip.load(dQ, r0, r1)
            li, mi = chip.load(l, r0, r1, hold=False), chip.load(m, r0, r1, hold=False)
            P = chip.alloc((r1 - r0, c1 - c0))
            chip.matmul(Qi, Kj.T, out=P)
            np.exp(P / np.sqrt(d) - mi[:, None], out=P)
            P /= li[:, None]
            dVj += chip.matmul(P.T, dOi)
            dS = chip.alloc(P.shape)
            chip.matmul(dOi, Vj.T, out=dS)
            D = (dOi * Oi).sum(axis=1)
            dS -= D[:, None]
            dS *= P / np.sqrt(d)
            dQi += chip.matmul(dS, Kj)
            chip.store(dQ, dQi, r0)
            dKj += chip.matmul(dS.T, Qi)
            chip.free(Qi, Oi, dOi, dQi, P, dS)
        chip.store(dK, dKj, c0)
        chip.store(dV, dVj, c0)
        chip.free(Kj, Vj, dKj, dVj)


def naive(chip, Q, K, V, O, dO, l, m, dQ, dK, dV, Br, Bc):
    """The whole N × N matrix P, or whole inputs, were put on chip at once. Compute P again tile by
    tile: only one block of each may be there at a time."""
    d = Q.shape[1]
    q, k, v, o, do = (chip.load(x) for x in (Q, K, V, O, dO))
    P = chip.alloc((len(q), len(k)))
    chip.matmul(q, k.T, out=P)
    np.exp(P / np.sqrt(d) - chip.load(m, hold=False)[:, None], out=P)
    P /= chip.load(l, hold=False)[:, None]
    dS = chip.alloc(P.shape)
    chip.matmul(do, v.T, out=dS)
    dS -= (do * o).sum(axis=1)[:, None]
    dS *= P / np.sqrt(d)
    chip.store(dV, chip.matmul(P.T, do))
    chip.store(dQ, chip.matmul(dS, k))
    chip.store(dK, chip.matmul(dS.T, q))


def gradients_kept_in_numpy(chip, Q, K, V, O, dO, l, m, dQ, dK, dV, Br, Bc):
    """All of dS, N × N numbers, was collected in a numpy array beside the chip. Use each tile of it
    for dQ and dK while it is there, then let it go."""
    (N_q, d), N_k = Q.shape, len(K)
    dS = np.zeros((N_q, N_k))
    for c0 in range(0, N_k, Bc):
        Kj, Vj = (chip.load(x, c0, min(c0 + Bc, N_k)) for x in (K, V))
        dKj, dVj = chip.alloc(Kj.shape), chip.alloc(Kj.shape)
        for r0 in range(0, N_q, Br):
            Qi, Oi, dOi = (chip.load(x, r0, min(r0 + Br, N_q)) for x in (Q, O, dO))
            li, mi = (chip.load(x, r0, min(r0 + Br, N_q), hold=False) for x in (l, m))
            P = np.exp(chip.matmul(Qi, Kj.T) / np.sqrt(d) - mi[:, None]) / li[:, None]
            dVj += chip.matmul(P.T, dOi)
            D = (dOi * Oi).sum(axis=1)[:, None]
            tile = P * (chip.matmul(dOi, Vj.T) - D) / np.sqrt(d)
            dS[r0 : r0 + Br, c0 : c0 + Bc] = tile
            dKj += chip.matmul(tile.T, Qi)
            chip.free(Qi, Oi, dOi)
        chip.store(dK, dKj, c0)
        chip.store(dV, dVj, c0)
        chip.free(Kj, Vj, dKj, dVj)
    for r0 in range(0, N_q, Br):
        dQi = chip.alloc((min(Br, N_q - r0), d))
        for c0 in range(0, N_k, Bc):
            Kj = chip.load(K, c0, min(c0 + Bc, N_k))
            dQi += chip.matmul(dS[r0 : r0 + Br, c0 : c0 + Bc], Kj)
            chip.free(Kj)
        chip.store(dQ, dQi, r0)
        chip.free(dQi)


def oracle(Q, K, V, O, dO, l, m, Br, Bc):
    """From the definition, with P whole."""
    P = standard_attention_forward(Q, K, V).P
    run = standard_attention_backward(Q, K, V, P, dO)
    return run.dQ, run.dK, run.dV


def case(label, N_q, N_k, d, Br, Bc, *, size=1.0, hint=1, fresh=False):
    """One case: its inputs, with the forward's results, and the bounds that follow from the
    sizes."""

    def inputs(rng):
        # one decimal is easy to read
        Q, K, V, dO = (rng.normal(0, 1, (n, d)).round(1) for n in (N_q, N_k, N_k, N_q))
        Q, K = size * Q, size * K
        run = standard_attention_forward(Q, K, V)
        return {"Q": Q, "K": K, "V": V, "O": run.O, "dO": dO, "l": run.l, "m": run.m}

    capacity = BlockSizes(Br, Bc).on_chip_elems(d, backward=True)
    return CountedCase(
        f"{label}: N_q = {N_q}, N_k = {N_k}, d = {d}",
        inputs,
        outputs={"dQ": (N_q, d), "dK": (N_k, d), "dV": (N_k, d)},
        options={"Br": Br, "Bc": Bc},
        capacity=capacity,
        traffic_at_most=4 * N_k * d + N_q * d + tile_count(N_k, Bc) * N_q * (5 * d + 2),
        flop_at_least=10 * N_q * N_k * d,
        workspace=capacity,
        landmarks={"the whole N × N": N_q * N_k, "one whole N × d input": N_k * d},
        fresh=fresh,
        hint=hint,
        terms=4 * (N_q + N_k + d),
        span=2 * np.sqrt(d) * (4 * size) ** 2,
    )


EXERCISE = Exercise(
    chapter="09",
    title="FlashAttention, backward",
    statement=STATEMENT,
    solution=flash_backward,
    oracle=oracle,
    returns=("dQ", "dK", "dV"),
    cases=[
        case("one tile", 2, 2, 2, 2, 2, hint=2),
        case("two blocks of queries", 4, 2, 2, 2, 2, hint=3),
        case("two blocks of keys", 2, 4, 2, 2, 2, hint=3),
        case("blocks that do not divide N", 5, 7, 2, 2, 3, hint=4),
        case("one key: dQ is 0", 5, 1, 2, 2, 2, hint=2),
        case("large scores", 4, 6, 4, 2, 2, size=15.0, hint=2),
        case("blocks larger than N", 3, 5, 2, 8, 8, hint=4),
        case("large", 480, 480, 32, 16, 16, fresh=True, hint=5),
    ],
    wrong={
        "D left out": edited(
            flash_backward,
            """D was left out: dS = P ∘ (dP - D). Without it the sum over a row of dS is not 0,
            as if the probabilities of a row could all grow together.""",
            {"dS -= D[:, None]": "pass"},
        ),
        "D of one tile": edited(
            flash_backward,
            """D was taken from the tile alone, Σ_j P_ij dP_ij over its own keys. It runs over
            all keys of the row; rowsum(dO ∘ O) gives the same number without seeing them.""",
            {"D = (dOi * Oi).sum(axis=1)": "D = (P * dS).sum(axis=1)"},
        ),
        "P not normalised": edited(
            flash_backward,
            "P was not divided by l: exp(S - m) alone is not the softmax.",
            {"P /= li[:, None]": "pass"},
        ),
        "maximum not subtracted": edited(
            flash_backward,
            "The row maximum m was not subtracted: P = exp(S - m) / l.",
            {" - mi[:, None]": ""},
        ),
        "scale missing in S": edited(
            flash_backward,
            "The recomputed scores were not divided by √d.",
            {"P / np.sqrt(d) - mi": "P - mi"},
        ),
        "scale missing in dQ and dK": edited(
            flash_backward,
            "The factor 1/√d is missing in dQ and dK: S = Q Kᵀ / √d carries it to both.",
            {"dS *= P / np.sqrt(d)": "dS *= P"},
        ),
        "scale missing in dK": edited(
            flash_backward,
            "The factor 1/√d is missing in dK; dQ has it.",
            {"chip.matmul(dS.T, Qi)": "chip.matmul(dS.T, Qi) * np.sqrt(d)"},
        ),
        "scale missing in dQ": edited(
            flash_backward,
            "The factor 1/√d is missing in dQ; dK has it.",
            {"chip.matmul(dS, Kj)": "chip.matmul(dS, Kj) * np.sqrt(d)"},
        ),
        "dQ overwritten": edited(
            flash_backward,
            """dQ was overwritten by the last block of keys. Every block of keys adds to it:
            load what is there, add, store.""",
            {"if c0 == 0 else chip.load(dQ, r0, r1)": ""},
        ),
        "dK and dV overwritten": edited(
            flash_backward,
            "dK and dV hold the last block of queries only. Every block of queries adds to them.",
            {"dVj += chip": "dVj[:] = chip", "dKj += chip": "dKj[:] = chip"},
        ),
        "dV from dS": edited(
            flash_backward,
            "dV was made from dS: dV = Pᵀ dO.",
            {
                "            dVj += chip.matmul(P.T, dOi)\n": "",
                "dKj += chip.matmul(dS.T, Qi)": (
                    "dKj += chip.matmul(dS.T, Qi); dVj += chip.matmul(dS.T, dOi)"
                ),
            },
        ),
        "drops the last keys": edited(
            flash_backward,
            "The last, shorter block of keys was left out: the number of blocks rounds up.",
            {"for c0 in range(0, N_k, Bc)": "for c0 in range(0, N_k - Bc + 1, Bc)"},
        ),
        "drops the last queries": edited(
            flash_backward,
            "The last, shorter block of queries was left out: the number of blocks rounds up.",
            {"for r0 in range(0, N_q, Br)": "for r0 in range(0, N_q - Br + 1, Br)"},
        ),
        "N × N on chip": naive,
        "N × N in numpy": gradients_kept_in_numpy,
    },
    hints=[
        """Two nested loops: blocks of keys outside, with dK and dV growing on chip; blocks of
        queries inside, with dQ coming and going.""",
        """For one tile, in this order: S, P = exp(S - m) / l, dV += Pᵀ dO, dP = dO Vᵀ, D, dS,
        dQ, dK. m and l are those of the whole row.""",
        """dQ gets a part from every block of keys: the first time start from zeros, later load
        what is in HBM. dK and dV are stored once, after all blocks of queries.""",
        "The last block may be short: stop = min(start + size, N).",
        """dS can take the place of dP. Nothing may grow with N but row statistics.""",
    ],
    explanation="""P is computed twice, once in each pass, and never stored: that costs one product
    more and saves N² elements in HBM. D uses O so that no row of P has to be whole. Each pass over
    the queries moves five N × d arrays (Q, O, dO and dQ in, dQ out) where the forward moves
    three.""",
)
