"""A matrix product in Triton with one fixed tile: no choice, no split, no cleverness at the end."""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TILE_M, TILE_N, TILE_K = 256, 128, 64


@triton.jit
def _one_tile(a, b, c, n, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr):
    row = tl.program_id(0) * TILE_M
    column = tl.program_id(1) * TILE_N
    # (TILE_M, TILE_N), fp32
    acc = tl.zeros((TILE_M, TILE_N), tl.float32)
    for k in range(0, n, TILE_K):
        acc = tl.dot(a.load([row, k]), b.load([k, column]), acc)
    c.store([row, column], acc.to(tl.bfloat16))


def one_tile_product(a, b, *, out):
    """out = a b for square bf16 matrices, n a multiple of 8 (rows start on 16 bytes)."""
    n = len(a)
    grid = (triton.cdiv(n, TILE_M), triton.cdiv(n, TILE_N))
    tiles = ((a, [TILE_M, TILE_K]), (b, [TILE_K, TILE_N]), (out, [TILE_M, TILE_N]))
    descriptors = [TensorDescriptor.from_tensor(x, shape) for x, shape in tiles]
    _one_tile[grid](
        *descriptors, n, TILE_M=TILE_M, TILE_N=TILE_N, TILE_K=TILE_K, num_warps=8, num_stages=3
    )
    return out
