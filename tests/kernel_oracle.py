"""Attention in plain PyTorch, and the rule by which the Triton kernel is judged against it.

The kernel's error against float64 may be twice that of a plain implementation in the same
precision, plus a floor that is measured: what rounding the float64 result to that precision costs.
The error is the root mean square; the largest error, of which a small array has a noisy sample,
may be three times the plain one.
"""

import math

import torch


def visible_keys(N_q, N_k, causal, device):
    """(N_q, N_k) bool, aligned at the bottom right."""
    visible = torch.ones(N_q, N_k, dtype=torch.bool, device=device)
    return visible.tril(N_k - N_q) if causal else visible


def attention(q, k, v, causal, scale):
    """O and LSE in the dtype of the inputs: products rounded to it, softmax in float32 or wider."""
    group = q.shape[1] // k.shape[1] if k.shape[1] else 1
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    wide = torch.promote_types(q.dtype, torch.float32)
    s = (q @ k.transpose(-1, -2)).to(wide) * scale
    if causal or k.shape[2] == 0:
        s = s.masked_fill(~visible_keys(q.shape[2], k.shape[2], causal, q.device), -math.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - torch.where(lse == -math.inf, 0.0, lse)[..., None])
    return p.to(q.dtype) @ v, lse


def results(function, q, k, v, do, dlse):
    """O, LSE and the three gradients of `function`, for the gradients do and dlse."""
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    o, lse = function(q, k, v)
    # a row without keys has LSE = -inf and no gradient
    finite = torch.where(lse == -math.inf, 0.0, lse)
    gradients = torch.autograd.grad([o, finite], (q, k, v), [do, dlse])
    return {"O": o, "LSE": lse, **dict(zip(("dQ", "dK", "dV"), gradients))}


def judge(ours, q, k, v, do, dlse, causal, scale):
    """Compare a dict of results with float64 by the rule above."""
    wide = [x.double() for x in (q, k, v, do, dlse)]
    exact = results(lambda *qkv: attention(*qkv, causal, scale), *wide)
    plain = results(lambda *qkv: attention(*qkv, causal, scale), q, k, v, do, dlse)
    for name, got in ours.items():
        want, other = exact[name], plain[name].double()
        assert got.shape == want.shape, name
        assert got.dtype == (torch.float32 if name == "LSE" else q.dtype), name
        empty = want == -math.inf
        assert torch.equal(got == -math.inf, empty), f"{name}: wrong rows without keys"
        want, got, other = (x.double().masked_fill(empty, 0.0) for x in (want, got, other))
        assert torch.isfinite(got).all(), f"{name}: not finite"
        if want.numel() == 0:
            continue
        rounded = want.to(ours[name].dtype).double()
        for what, size, factor in (("rms", root_mean_square, 2), ("largest", largest, 3)):
            # sums in float32, in any order, differ by some units of its last place
            floor = 2 * size(rounded - want) + 2e-6 * (1 + size(want))
            error, allowed = size(got - want), factor * size(other - want) + floor
            assert error <= allowed, f"{name}: {what} error {error:.2e}, allowed {allowed:.2e}"


def root_mean_square(x):
    return x.square().mean().sqrt()


def largest(x):
    return x.abs().max()
