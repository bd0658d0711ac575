"""One token at a time: the KV cache, its size, its pages, and attention over its pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lecture_code.attention import Head, standard_attention_forward
from lecture_code.blocks import positive_int, positive_number, tile_count, visible_mask
from lecture_code.hardware import dtype_bytes
from lecture_code.roofline import OpCost
from lecture_code.softmax import merge_outputs


def kv_cache_bytes(
    *,
    layers: int,
    kv_heads: int,
    head_dim: int,
    context: int,
    batch: int = 1,
    dtype: str = "float16",
) -> int:
    """Bytes of K and V of every layer: 2 · layers · kv_heads · head_dim · context · batch elements.

    Query heads share key and value heads in GQA (a group shares one) and MQA (all share one); only
    ``kv_heads`` counts here.

    References
    ----------
    Shazeer 2019, Fast transformer decoding (MQA); Ainslie et al. 2023, GQA.

    Examples
    --------
    >>> gpt3 = dict(layers=96, head_dim=128, context=2048)
    >>> [kv_cache_bytes(kv_heads=h, **gpt3) / 2**30 for h in (96, 8, 1)]
    [9.0, 0.75, 0.09375]
    """
    sizes = {"layers": layers, "kv_heads": kv_heads, "head_dim": head_dim}
    sizes |= {"context": context, "batch": batch}
    elements = 2
    for name, value in sizes.items():
        elements *= positive_int(name, value)
    return elements * dtype_bytes(dtype)


def decode_step_cost(
    parameters: float,
    *,
    batch: int,
    cache_bytes: int,
    weight_bytes: float = 2,
    queries_per_kv: int = 1,
) -> OpCost:
    """One new token for each of ``batch`` sequences: every weight read once, the whole cache read
    once.

    Parameters
    ----------
    parameters : float
        Weights of the model.
    batch : int
        Sequences that step together; they share the read of the weights.
    cache_bytes : int
        KV cache of all of them.
    weight_bytes : float
        Bytes a weight: 2 in 16 bits, 1 in 8, 0.5 in 4.
    queries_per_kv : int
        Query heads that share a key-value head. Each does one multiply-add with each 16-bit element
        of the cache: ``queries_per_kv`` FLOP a byte.

    Returns
    -------
    OpCost
        2 FLOP a weight and sequence and attention's own, and the bytes.

    Examples
    --------
    >>> decode_step_cost(70e9, batch=1, cache_bytes=0).bytes / 1e9
    140.0
    """
    batch = positive_int("batch", batch)
    cache_bytes = positive_int("cache_bytes", cache_bytes, 0)
    parameters = positive_number("parameters", parameters)
    weight_bytes = positive_number("weight_bytes", weight_bytes)
    attention_flop = positive_int("queries_per_kv", queries_per_kv) * cache_bytes
    flop = 2 * parameters * batch + attention_flop
    return OpCost(flop, parameters * weight_bytes + cache_bytes)


def split_kv_attention(Q, K, V, *, splits: int, causal: bool = False, scale: float | None = None):
    """Attention over a cache cut into ``splits`` pieces, each by itself, then merged by their LSE.

    The pieces need nothing from each other until the end, so a single query can keep many SMs busy.

    Parameters
    ----------
    Q : ndarray (N_q, d)
    K, V : ndarray (N_k, d)
    splits : int
        Pieces of the keys, as equal as they can be; at most N_k of them.
    causal : bool
        Bottom-right aligned over the whole cache.

    Returns
    -------
    (O, lse)
        (N_q, d) in the inputs' dtype, and (N_q,).

    References
    ----------
    Dao et al. 2023, Flash-Decoding for long-context inference.

    Examples
    --------
    >>> x = np.eye(4)
    >>> O, lse = split_kv_attention(x, x, x, splits=3)
    >>> bool(np.allclose(O, standard_attention_forward(x, x, x).O))
    True
    """
    head = Head.of(Q, K, V, causal=causal, window=None, mask=None, scale=scale, accumulate=None)
    N_k = head.N_k
    if not 1 <= positive_int("splits", splits) <= max(N_k, 1):
        raise ValueError(f"splits must lie between 1 and N_k = {N_k}, got {splits}")
    visible = visible_mask(head.N_q, N_k, causal=causal)
    cuts = [N_k * piece // splits for piece in range(splits + 1)]
    parts = []
    for start, stop in zip(cuts, cuts[1:]):
        run = standard_attention_forward(
            Q, K[start:stop], V[start:stop], mask=visible[:, start:stop], scale=scale, log=False
        )
        parts.append((run.O, run.lse))
    merged = parts[0]
    for part in parts[1:]:
        merged = merge_outputs(merged, part)
    return merged[0].astype(head.dtype, copy=False), merged[1]


class PagedKV:
    """The K, V cache of many sequences in pages of one pool, found through a table for each
    sequence.

    Parameters
    ----------
    pages, page_size : int
        Pages in the pool; tokens in a page.
    head_dim : int

    References
    ----------
    Kwon et al. 2023, PagedAttention (vLLM), section 4.

    Examples
    --------
    >>> cache = PagedKV(pages=4, page_size=2, head_dim=1)
    >>> for token in range(3):
    ...     cache.append("a", [token], [token])
    >>> cache.table["a"], cache.gather("a")[0].ravel().tolist()
    ([0, 1], [0.0, 1.0, 2.0])
    """

    def __init__(self, *, pages: int, page_size: int, head_dim: int):
        self.page_size = positive_int("page_size", page_size)
        shape = (positive_int("pages", pages), self.page_size, positive_int("head_dim", head_dim))
        self._K, self._V = np.zeros(shape), np.zeros(shape)
        self._free = list(range(pages))[::-1]
        self.table: dict[str, list[int]] = {}
        self.length: dict[str, int] = {}

    @property
    def free_pages(self) -> int:
        return len(self._free)

    def append(self, sequence: str, k, v) -> None:
        """Add one token's key and value, (head_dim,) each; takes a page when the last one is full.

        Raises
        ------
        ValueError
            If k or v is not (head_dim,).
        MemoryError
            If a page is needed and the pool has none.
        """
        shape = self._K.shape[2:]
        k, v = np.asarray(k, float), np.asarray(v, float)
        if not k.shape == v.shape == shape:
            raise ValueError(f"k and v must have shape {shape}, got {k.shape} and {v.shape}")
        length = self.length.get(sequence, 0)
        at = length % self.page_size
        if at == 0:
            if not self._free:
                raise MemoryError(f"no free page for sequence {sequence!r}")
            self.table.setdefault(sequence, []).append(self._free.pop())
        page = self.table[sequence][-1]
        self._K[page, at], self._V[page, at] = k, v
        self.length[sequence] = length + 1

    def gather(self, sequence: str) -> tuple[np.ndarray, np.ndarray]:
        """K and V of a sequence in order, (length, head_dim) each."""
        self._known(sequence)
        pages, length = self.table[sequence], self.length[sequence]
        width = self._K.shape[2]
        return tuple(x[pages].reshape(-1, width)[:length] for x in (self._K, self._V))

    def release(self, sequence: str) -> None:
        """Give a finished sequence's pages back."""
        self._known(sequence)
        self._free.extend(reversed(self.table.pop(sequence)))
        del self.length[sequence]

    def _known(self, sequence: str) -> None:
        if sequence not in self.length:
            raise ValueError(f"no sequence {sequence!r}; there are {sorted(self.length)}")


@dataclass(frozen=True)
class PoolRun:
    """What a pool did with a list of requests, in tokens of cache.

    ``served`` at once at the end; ``used`` tokens that hold a key; ``reserved`` tokens set aside.
    """

    served: int
    used: int
    reserved: int

    @property
    def waste(self) -> float:
        """Share of what is reserved that holds nothing."""
        return 1 - self.used / self.reserved if self.reserved else 0.0


def admit(lengths: Sequence[int], pool: int, *, max_length: int, page_size: int | None = None):
    """How many requests a pool of ``pool`` tokens holds at once.

    Parameters
    ----------
    lengths : sequence of int
        Tokens that each request, in order, has in the end; unknown when it arrives.
    pool : int
        Tokens of cache in the pool.
    max_length : int
        Longest request that is promised.
    page_size : int, optional
        None: a contiguous piece of ``max_length`` is set aside for each request, since nobody knows
        how long it gets. Given: pages are taken as they fill.

    Returns
    -------
    PoolRun

    Examples
    --------
    >>> admit([100] * 50, 2048, max_length=512).served
    4
    >>> admit([100] * 50, 2048, max_length=512, page_size=16).served
    18
    """
    pool, max_length = positive_int("pool", pool), positive_int("max_length", max_length)
    if page_size is not None:
        page_size = positive_int("page_size", page_size)
    served = used = reserved = 0
    for length in lengths:
        length = positive_int("lengths", length)
        if length > max_length:
            raise ValueError(f"lengths must be at most max_length = {max_length}, got {length}")
        if page_size is None:
            need = max_length
        else:
            need = page_size * tile_count(length, page_size)
        if reserved + need > pool:
            break
        served, used, reserved = served + 1, used + length, reserved + need
    return PoolRun(served, used, reserved)
