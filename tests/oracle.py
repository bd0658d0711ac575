"""Attention from the equations, in float64, for tests to compare with."""

import numpy as np

from lecture_code.blocks import visible_mask


def attention(Q, K, V, dO=None, *, causal=False, window=None, mask=None, scale=None):
    """O, lse, P and, given dO, (dQ, dK, dV): softmax and its Jacobian written out for each row."""
    Q, K, V = (x.astype(np.float64) for x in (Q, K, V))
    (N_q, d), N_k = Q.shape, len(K)
    scale = d**-0.5 if scale is None else scale
    visible = visible_mask(N_q, N_k, causal=causal, window=window)
    if mask is not None:
        visible = visible & mask
    S = scale * Q @ K.T
    P, lse = np.zeros((N_q, N_k)), np.full(N_q, -np.inf)
    for i in range(N_q):
        s = S[i, visible[i]]
        if s.size:
            lse[i] = s.max() + np.log(np.exp(s - s.max()).sum())
            P[i, visible[i]] = np.exp(s - lse[i])
    if dO is None:
        return P @ V, lse, P
    dO = dO.astype(np.float64)
    dP, dS = dO @ V.T, np.zeros((N_q, N_k))
    for i in range(N_q):
        dS[i] = (np.diag(P[i]) - np.outer(P[i], P[i])) @ dP[i]
    return P @ V, lse, P, (scale * dS @ K, scale * dS.T @ Q, P.T @ dO)


def head(N_q, N_k, d, dtype=np.float64, seed=0, spread=1.0):
    """Q, K, V, dO of one head."""
    rng = np.random.default_rng(seed)
    shapes = ((N_q, d), (N_k, d), (N_k, d), (N_q, d))
    return tuple((spread * rng.standard_normal(s)).astype(dtype) for s in shapes)
