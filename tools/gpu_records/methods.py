"""The attention methods that the records compare, and their inputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_records.run import Run

KERNEL = "lecture_code/kernels/triton_flash.py"
# one turn of one method in a round: about 30 ms, at least 3 calls
ROUND = {"budget_s": 0.03, "min_samples": 3, "warmup": 1}
BACKENDS = {
    "flash2": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
METHODS = {
    "ours": "the book's Triton kernel",
    "flash2": "SDPA forced to FlashAttention-2",
    "cudnn": "SDPA forced to cuDNN",
    "efficient": "SDPA forced to the memory-efficient kernel",
    "flex": "compiled FlexAttention",
    "plain": "softmax(Q Kᵀ / √d) V as separate PyTorch operations",
}


def plain_attention(q, k, v, causal=False, dropout=0.0):
    """Attention as separate operations: S and P are whole matrices in memory.

    The scale is the matmul's own (alpha), so that only S, P and their gradients are S-sized.
    """
    batch, heads, n_q, d = q.shape
    n_k = k.shape[2]
    nothing = q.new_empty(1, 1, 1)
    s = torch.baddbmm(
        nothing, q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2), beta=0, alpha=d**-0.5
    )
    s = s.view(batch, heads, n_q, n_k)
    if causal:
        hidden = torch.ones(n_q, n_k, dtype=torch.bool, device=s.device).triu(n_k - n_q + 1)
        s = s.masked_fill(hidden, float("-inf"))
    p = torch.softmax(s, -1)
    return (F.dropout(p, dropout) if dropout else p) @ v


def attention_method(run: Run, name: str, causal: bool, N: int | None = None):
    """Return f(q, k, v) for one of METHODS."""
    if name == "ours":
        from lecture_code.kernels.triton_flash import flash_attention

        return lambda q, k, v: flash_attention(q, k, v, causal=causal)
    if name == "plain":
        return lambda q, k, v: plain_attention(q, k, v, causal)
    if name == "flex":
        return _flex(run, causal, N)

    def forced(q, k, v):
        gqa = q.shape[1] != k.shape[1]
        with sdpa_kernel(BACKENDS[name]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=gqa)

    return forced


def _flex(run: Run, causal: bool, N: int):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    mask = None
    if causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, N, N, device=run.device)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def backward_of(function, q, k, v):
    """Return a function that runs only the backward of one forward, again and again."""
    out = function(q, k, v)
    do = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (q, k, v), do, retain_graph=True)


def inputs(run: Run, batch, heads, N, d, *, dtype=None, kv_heads=None):
    """Random Q, K, V of shape (batch, heads, N, d), all requiring gradients."""
    shapes = [(batch, h, N, d) for h in (heads, kv_heads or heads, kv_heads or heads)]
    return [run.random(*shape, dtype=dtype, grad=True) for shape in shapes]
