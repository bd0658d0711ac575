"""The book's base model: a character GPT of two layers, its text, and its training.

Small enough to train in seconds on a laptop, and a real Transformer all the same. Its attention is
a function of (q, k, v) that can be exchanged without touching a weight.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lecture_code.blocks import positive_int
from lecture_code.torch_attention import standard_attention

Attention = Callable[..., Tensor]
"""``attention(q, k, v, causal=True)`` with tensors (B, H, N, d) gives (B, H, N, d)."""

Batches = Callable[[torch.Generator], tuple[Tensor, Tensor]]
"""``batches(generator)`` draws inputs and targets, both int64 (B, N); target −100 is not scored."""

NOT_SCORED = -100


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of the model; ``width`` is split evenly over ``heads``.

    >>> GPTConfig(vocab_size=28)
    GPTConfig(vocab_size=28, context=96, width=64, layers=2, heads=2)
    """

    vocab_size: int
    context: int = 96
    width: int = 64
    layers: int = 2
    heads: int = 2

    def __post_init__(self):
        for name in ("vocab_size", "context", "width", "layers", "heads"):
            positive_int(name, getattr(self, name))
        if self.width % self.heads:
            raise ValueError(
                f"width must be a multiple of heads, got width = {self.width}, heads = {self.heads}"
            )


class Block(nn.Module):
    """One layer: attention, then an MLP four times as wide; each on a LayerNorm, added back."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, attention: Attention) -> Tensor:
        B, N, width = x.shape
        # q, k, v: (B, H, N, d)
        qkv = self.qkv(self.norm1(x)).view(B, N, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        o = attention(q, k, v, causal=True)
        x = x + self.proj(o.transpose(1, 2).reshape(B, N, width))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class SmallGPT(nn.Module):
    """A GPT that gives logits (B, N, vocab_size) for tokens (B, N), N at most ``config.context``.

    Parameters
    ----------
    config : GPTConfig
    seed : int
        The same seed gives the same weights; torch's own generator is left as it was.
    attention : callable, optional
        ``attention(q, k, v, causal=True)``, by default
        :func:`~lecture_code.torch_attention.standard_attention`.

    Examples
    --------
    >>> model = SmallGPT(GPTConfig(vocab_size=27))
    >>> model(torch.zeros(1, 5, dtype=torch.int64)).shape, parameter_count(model)
    (torch.Size([1, 5, 27]), 109696)
    """

    def __init__(
        self, config: GPTConfig, *, seed: int = 0, attention: Attention = standard_attention
    ):
        super().__init__()
        self.config, self.attention = config, attention
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.tokens = nn.Embedding(config.vocab_size, config.width)
            self.positions = nn.Embedding(config.context, config.width)
            self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
            self.norm = nn.LayerNorm(config.width)
            self.head = nn.Linear(config.width, config.vocab_size, bias=False)
            for embedding in (self.tokens, self.positions):
                nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.ndim != 2 or tokens.dtype != torch.int64:
            raise ValueError(
                f"tokens must be int64 (B, N), got {tokens.dtype} {tuple(tokens.shape)}"
            )
        N = tokens.shape[1]
        if N > self.config.context:
            raise ValueError(f"tokens must have at most {self.config.context} columns, got {N}")
        # x: (B, N, width)
        x = self.tokens(tokens) + self.positions.weight[:N]
        for block in self.blocks:
            x = block(x, self.attention)
        return self.head(self.norm(x))

    def with_attention(self, attention: Attention) -> SmallGPT:
        """The same weights, shared and not copied, behind another attention function."""
        if not callable(attention):
            raise TypeError(f"attention must be callable, got {type(attention).__name__}")
        other = copy.copy(self)
        other.attention = attention
        return other


def parameter_count(model: nn.Module) -> int:
    """Numbers that training changes, embeddings included."""
    return sum(p.numel() for p in model.parameters())


@dataclass(frozen=True)
class Corpus:
    """A text as tokens: its characters in order, and two pieces of it, int64 (n,).

    A piece begins with a line's end, so that the first character of each line has something to be
    predicted from.
    """

    characters: str
    train: Tensor
    held_out: Tensor

    def encode(self, text: str) -> Tensor:
        """Token of each character, int64 (n,); a character that the text lacks is refused."""
        index = {c: i for i, c in enumerate(self.characters)}
        unknown = sorted(set(text) - set(index))
        if unknown:
            raise ValueError(f"text must use the characters of the corpus, got {unknown[0]!r}")
        return torch.tensor([index[c] for c in text], dtype=torch.int64)

    def decode(self, tokens) -> str:
        """The text of tokens (n,)."""
        return "".join(self.characters[t] for t in torch.as_tensor(tokens).tolist())


def load_corpus(*, held_out_lines: int = 240) -> Corpus:
    """The mini world that ships with the book; its last lines are never trained on.

    >>> corpus = load_corpus()
    >>> corpus.decode(corpus.encode("the owl"))
    'the owl'
    """
    text = (resources.files("lecture_code") / "data" / "mini_world.txt").read_text("ascii")
    lines = text.splitlines()
    positive_int("held_out_lines", held_out_lines)
    if held_out_lines >= len(lines):
        raise ValueError(
            f"held_out_lines must leave some of {len(lines)} lines, got {held_out_lines}"
        )
    empty = torch.empty(0, dtype=torch.int64)
    whole = Corpus("".join(sorted(set(text))), empty, empty)
    pieces = (lines[:-held_out_lines], lines[-held_out_lines:])
    return Corpus(whole.characters, *(whole.encode("\n".join(["", *p, ""])) for p in pieces))


def line_starts(tokens: Tensor) -> Tensor:
    """Where lines start: the places of the separator, which is the first token, int64 (lines,)."""
    if tokens.ndim != 1 or len(tokens) < 2 or tokens[-1] != tokens[0]:
        raise ValueError(
            "tokens must be one text, (n,), with a separator before the first line and after the "
            f"last, got shape {tuple(tokens.shape)}"
        )
    return torch.nonzero(tokens[:-1] == tokens[0]).flatten()


def text_batches(tokens: Tensor, *, batch: int, context: int) -> Batches:
    """Draw ``batch`` pieces of ``context`` tokens from the start of a line on.

    The target of each token is the next one.
    """
    positive_int("batch", batch), positive_int("context", context)
    starts = line_starts(tokens)
    starts = starts[starts + context < len(tokens)]
    if not len(starts):
        raise ValueError(f"tokens must be longer than context = {context}, got {len(tokens)}")

    def draw(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        chosen = starts[torch.randint(len(starts), (batch, 1), generator=generator)]
        pieces = tokens[chosen + torch.arange(context + 1)]
        return pieces[:, :-1], pieces[:, 1:]

    return draw


def make_optimizer(model: nn.Module, lr: float = 6e-3) -> torch.optim.Optimizer:
    """AdamW over all parameters, one update for each tensor."""
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01, foreach=False)


def training_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor
) -> Tensor:
    """One step of training: forward, loss, backward, update. Returns the loss in nats, detached.

    Parameters
    ----------
    inputs, targets : Tensor int64 (B, N)
        A target of −100 is not scored.
    """
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=NOT_SCORED)
    loss.backward()
    optimizer.step()
    return loss.detach()


def train(
    model: SmallGPT,
    batches: Batches,
    *,
    steps: int,
    lr: float = 6e-3,
    warmup: int = 20,
    seed: int = 0,
) -> list[float]:
    """Train ``model`` in place and return the loss of each step, in nats a scored token.

    The learning rate rises over ``warmup`` steps and falls along half a cosine to zero.

    Parameters
    ----------
    batches : callable
        See :func:`text_batches`.
    seed : int
        Of the batches; the weights have their own.
    """
    positive_int("steps", steps)
    optimizer, generator = make_optimizer(model, lr), torch.Generator().manual_seed(seed)
    losses = []
    model.train()
    for step in range(steps):
        rate = min(1, (step + 1) / warmup) * 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = lr * rate
        losses.append(training_step(model, optimizer, *batches(generator)).item())
    model.eval()
    return losses


def recall_batches(*, batch: int, length: int, keys: int = 8) -> Batches:
    """A task that needs the far past: the first token is a key, the last asks for it.

    Tokens 0 … keys − 1 are keys, the next ``keys`` are filler, and 2 keys is the question; a model
    needs a vocabulary of 2 keys + 1. Only the answer to the question is scored.
    """
    positive_int("batch", batch), positive_int("length", length, 2), positive_int("keys", keys, 2)

    def draw(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        inputs = torch.randint(keys, 2 * keys, (batch, length), generator=generator)
        inputs[:, 0] = torch.randint(keys, (batch,), generator=generator)
        inputs[:, -1] = 2 * keys
        targets = torch.full_like(inputs, NOT_SCORED)
        targets[:, -1] = inputs[:, 0]
        return inputs, targets

    return draw


@torch.no_grad()
def recall_logits(model: SmallGPT, *, length: int, keys: int = 8, fillers: int = 32) -> Tensor:
    """Answers for the same ``fillers`` fillers behind each key: float (keys, fillers, vocabulary).

    A model that cannot see the key gives the same numbers for all of them, and is right for one
    key in ``keys``.
    """
    batches = recall_batches(batch=fillers, length=length, keys=keys)
    inputs, _ = batches(torch.Generator().manual_seed(1))
    answers = []
    for key in range(keys):
        inputs[:, 0] = key
        answers.append(model(inputs)[:, -1])
    return torch.stack(answers)


def recall_accuracy(logits: Tensor) -> float:
    """Share of right answers in :func:`recall_logits`; the answer is the key of largest logit."""
    keys = torch.arange(len(logits))[:, None]
    return (logits[..., : len(logits)].argmax(-1) == keys).double().mean().item()


@torch.no_grad()
def bits_per_character(model: SmallGPT, tokens: Tensor, *, batch: int = 60) -> float:
    """Mean −log2 of the probability that ``model`` gave to each character, summed in float64.

    Every character, the separator that ends a line included, is predicted once, from the
    characters before it in its line.

    Parameters
    ----------
    tokens : Tensor int64 (n,)
        As :class:`Corpus` holds them; no line longer than ``config.context``.
    """
    starts, context = line_starts(tokens), model.config.context
    ends = torch.cat([starts[1:], torch.tensor([len(tokens) - 1])])
    longest = int((ends - starts).max())
    if longest > context:
        raise ValueError(f"tokens must have lines of at most {context}, got one of {longest}")
    # place: (lines, context), clipped where a line has ended
    place = starts[:, None] + torch.arange(context)
    inputs = tokens[place.clamp(max=len(tokens) - 1)]
    targets = tokens[(place + 1).clamp(max=len(tokens) - 1)]
    targets[place >= ends[:, None]] = NOT_SCORED
    nats = 0.0
    for i in range(0, len(starts), batch):
        logits = model(inputs[i : i + batch]).double().flatten(0, 1)
        nats += F.cross_entropy(
            logits, targets[i : i + batch].flatten(), ignore_index=NOT_SCORED, reduction="sum"
        ).item()
    return nats / (len(tokens) - 1) / math.log(2)
