"""Size of the KV cache, and how many requests fit beside the weights."""

from ._exercise import Case, Exercise, edited

STATEMENT = r"""
A model with `layers` layers keeps the keys and values of all earlier tokens, for each of its
`kv_heads` key-value heads, `head_dim` numbers each, `element_bytes` bytes a number. Every request
is promised `context` tokens. The card has `memory_bytes` bytes, of which the weights take
`weight_bytes`; the rest is for caches.

Return the bytes of one request's cache and the number of requests that fit at once. By hand first:
Llama 3.1 8B has 32 layers, 32 query heads, 8 key-value heads of 128 and 16.06 GB of weights. How
many requests of 8,192 tokens does a card of 80 GB hold?
"""


def kv_cache_size(
    layers,
    query_heads,
    kv_heads,
    head_dim,
    context,
    element_bytes,
    memory_bytes,
    weight_bytes,
):
    """Bytes of one request's KV cache, and how many requests fit.

    Parameters
    ----------
    layers, query_heads, kv_heads, head_dim : int
        Shape of the model.
    context : int
        Tokens of one request.
    element_bytes : int
        Bytes of one number in the cache.
    memory_bytes, weight_bytes : int
        Memory of the card, and what the weights take of it.

    Returns
    -------
    cache_bytes : int
    requests : int
        0 if not even the weights fit.
    """
    cache_bytes = 2 * layers * kv_heads * head_dim * context * element_bytes
    return cache_bytes, max(memory_bytes - weight_bytes, 0) // cache_bytes


def token_by_token(
    layers, query_heads, kv_heads, head_dim, context, element_bytes, memory_bytes, weight_bytes
):
    """The same by adding up the two vectors of each layer and head, and filling the card."""
    token_bytes = sum(element_bytes * len(("K", "V")) * head_dim for _ in range(layers * kv_heads))
    left, requests = memory_bytes - weight_bytes, 0
    while left >= token_bytes * context:
        left, requests = left - token_bytes * context, requests + 1
    return token_bytes * context, requests


def case(label, layers, query_heads, kv_heads, head_dim, context, *rest, hint=1):
    names = ("layers", "query_heads", "kv_heads", "head_dim", "context")
    names += ("element_bytes", "memory_bytes", "weight_bytes")
    values = (layers, query_heads, kv_heads, head_dim, context, *rest)
    return Case(label, dict(zip(names, values)), hint=hint)


GB = 10**9
LLAMA_8B = (32, 32, 8, 128)

EXERCISE = Exercise(
    chapter="15",
    title="How many requests fit",
    statement=STATEMENT,
    solution=kv_cache_size,
    oracle=token_by_token,
    returns=("cache_bytes", "requests"),
    cases=[
        case("one layer, one head, 3 tokens", 1, 1, 1, 4, 3, 2, 100, 0),
        case("two query heads share one key-value head", 1, 2, 1, 4, 3, 2, 100, 30, hint=2),
        case("exactly full", 2, 2, 2, 4, 5, 1, 480, 160, hint=3),
        case("Llama 3.1 8B, 8,192 tokens, 80 GB", *LLAMA_8B, 8192, 2, 80 * GB, 16_060_000_000),
        case("the same with an 8-bit cache", *LLAMA_8B, 8192, 1, 80 * GB, 16_060_000_000, hint=2),
        case(
            "70B on one card: no room for the weights",
            80,
            64,
            8,
            128,
            4096,
            2,
            80 * GB,
            141_000_000_000,
            hint=3,
        ),
    ],
    wrong={
        "keys only": edited(
            kv_cache_size,
            "Only half was counted: the cache holds keys and values.",
            {"2 * layers": "layers"},
        ),
        "query heads": edited(
            kv_cache_size,
            """Every query head got keys and values of its own. They are shared: only kv_heads
            counts.""",
            {"layers * kv_heads": "layers * query_heads"},
        ),
        "one layer": edited(
            kv_cache_size,
            "That is the cache of one layer; every layer has its own.",
            {"2 * layers * kv_heads": "2 * kv_heads"},
        ),
        "elements for bytes": edited(
            kv_cache_size,
            "Numbers were counted where bytes are asked for.",
            {" * context * element_bytes": " * context"},
        ),
        "one token": edited(
            kv_cache_size,
            "That is the cache of one token; a request has context of them.",
            {" * context * element_bytes": " * element_bytes"},
        ),
        "weights forgotten": edited(
            kv_cache_size,
            "The weights lie in the same memory: take weight_bytes off first.",
            {"max(memory_bytes - weight_bytes, 0)": "memory_bytes"},
        ),
        "rounded up": edited(
            kv_cache_size,
            "A request that fits in part does not fit: round down.",
            {
                "max(memory_bytes - weight_bytes, 0) // cache_bytes": (
                    "-(-max(memory_bytes - weight_bytes, 0) // cache_bytes)"
                )
            },
        ),
        "negative": edited(
            kv_cache_size,
            "When the weights do not fit, the number of requests is 0, not negative.",
            {"max(memory_bytes - weight_bytes, 0)": "(memory_bytes - weight_bytes)"},
        ),
    },
    hints=[
        "Count for one token first: two vectors of head_dim numbers for each layer and head.",
        "Which heads have keys and values of their own? How many bytes has a number?",
        "What is left of the memory, divided by the cache of one request, rounded down.",
    ],
    explanation="""2 x 32 x 8 x 128 x 2 bytes are 131,072 bytes a token and 1.07 GB for 8,192
    tokens; 59 such requests fit beside the weights. With one key-value head for each query head it
    would be 14.""",
)
