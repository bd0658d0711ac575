"""The small GPT: its text, its attention exchanged, its training, its measure."""

import importlib.util
import math
from functools import partial
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from lecture_code import small_gpt  # noqa: E402
from lecture_code.small_gpt import (  # noqa: E402
    GPTConfig,
    SmallGPT,
    bits_per_character,
    line_starts,
    load_corpus,
    make_optimizer,
    parameter_count,
    recall_accuracy,
    recall_batches,
    recall_logits,
    text_batches,
    train,
    training_step,
)
from lecture_code.torch_attention import (  # noqa: E402
    blockwise_attention,
    sliding_window_attention,
    standard_attention,
)

TINY = GPTConfig(vocab_size=17, context=12, width=16, layers=2, heads=2)
DATA = Path(small_gpt.__file__).parent / "data"


def windowed(model, window):
    """The same weights behind a window."""
    return model.with_attention(partial(sliding_window_attention, window=window))


def tokens(B=3, N=12, vocab=17, seed=0):
    """Random tokens (B, N)."""
    return torch.randint(vocab, (B, N), generator=torch.Generator().manual_seed(seed))


def test_the_text_is_what_its_generator_writes():
    spec = importlib.util.spec_from_file_location("make_mini_world", DATA / "make_mini_world.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert (DATA / "mini_world.txt").read_bytes() == generator.mini_world().encode("ascii")
    assert generator.mini_world(50) == generator.mini_world()[: len(generator.mini_world(50))]
    assert generator.mini_world(50, seed=1) != generator.mini_world(50)


def test_a_line_can_be_told_only_from_far_back():
    for line in (DATA / "mini_world.txt").read_text("ascii").splitlines():
        assert len(line) < GPTConfig(27).context
        words = line.replace(".", "").split()
        if words[1] == "found":
            thing = line.split(".")[0].split()[4]
            assert words[-5:] == [thing, "of", words[0], "is", words[3]]
        elif words[1] == "gave":
            assert words[-6:] == [words[2], "thanked", words[0], "for", "the", words[4]]
        else:
            assert words[0] == "the" and words[-2] == "said"


def test_corpus():
    corpus = load_corpus()
    assert len(corpus.characters) == 27 and corpus.characters[0] == "\n"
    for piece, lines in ((corpus.train, 2160), (corpus.held_out, 240)):
        assert piece.dtype == torch.int64 and len(line_starts(piece)) == lines
        assert corpus.decode(piece[:1]) == corpus.decode(piece[-1:]) == "\n"
        assert torch.equal(corpus.encode(corpus.decode(piece)), piece)
    whole = corpus.decode(corpus.train) + corpus.decode(corpus.held_out[1:])
    assert whole[1:] == (DATA / "mini_world.txt").read_text("ascii")


def test_config_and_count():
    model = SmallGPT(GPTConfig(vocab_size=27))
    width, layer = 64, 12 * 64**2 + 13 * 64
    assert parameter_count(model) == 2 * layer + (27 + 96 + 27 + 2) * width == 109_696
    for options, error, message in [
        ({"width": 65}, ValueError, "width must be a multiple of heads, got width = 65"),
        ({"layers": 0}, ValueError, "layers must be at least 1"),
        ({"context": 1.5}, TypeError, "context must be an integer"),
    ]:
        with pytest.raises(error, match=message):
            GPTConfig(vocab_size=27, **options)


def test_same_seed_same_weights_and_torch_is_left_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    a, b, c = SmallGPT(TINY), SmallGPT(TINY), SmallGPT(TINY, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters()))
    assert not torch.equal(a.head.weight, c.head.weight)


def test_logits_see_no_future():
    model = SmallGPT(TINY)
    x = tokens()
    y = x.clone()
    y[:, 7:] = (y[:, 7:] + 1) % 17
    with torch.no_grad():
        assert torch.equal(model(x)[:, :7], model(y)[:, :7])
        assert not torch.equal(model(x)[:, 7:], model(y)[:, 7:])
        assert (model(x[:, :5]) - model(x)[:, :5]).abs().max() < 1e-5


def test_the_layer_is_the_one_of_the_papers():
    """One block against its formula, pre-norm, written out in float64."""
    model = SmallGPT(GPTConfig(17, context=6, width=8, layers=1, heads=2)).double()
    x = model.tokens(tokens(1, 6)) + model.positions.weight
    block = model.blocks[0]
    q, k, v = block.qkv(block.norm1(x)).chunk(3, dim=-1)
    heads = []
    for h in (slice(0, 4), slice(4, 8)):
        scores = q[..., h] @ k[..., h].transpose(1, 2) / 2
        scores = scores + torch.full((6, 6), -math.inf, dtype=torch.float64).triu(1)
        heads.append(torch.softmax(scores, -1) @ v[..., h])
    y = x + block.proj(torch.cat(heads, -1))
    y = y + block.fc2(torch.nn.functional.gelu(block.fc1(block.norm2(y))))
    wanted = model.head(model.norm(y))
    assert (model(tokens(1, 6)) - wanted).abs().max() < 1e-12


@pytest.mark.parametrize("block_size", [1, 5, 12])
def test_exact_attention_drops_in(block_size):
    model = SmallGPT(TINY).double()
    other = model.with_attention(partial(blockwise_attention, block_size=block_size))
    assert other.attention is not model.attention is standard_attention
    assert all(a is b for a, b in zip(model.parameters(), other.parameters()))
    with torch.no_grad():
        assert (model(tokens()) - other(tokens())).abs().max() < 1e-12


@pytest.mark.parametrize("window", [1, 2, 4, 6, 12])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_receptive_field_of_stacked_windows(layers, window):
    model = SmallGPT(GPTConfig(17, context=12, width=8, layers=layers, heads=2))
    model = windowed(model, window).double()
    seen = []
    model.tokens.register_forward_hook(lambda _, __, out: seen.append(out))
    model(tokens(1))[0, -1].square().sum().backward(inputs=seen)
    reached = (seen[0].grad[0] != 0).any(-1)
    field = min(12, layers * (window - 1) + 1)
    assert reached.tolist() == [False] * (12 - field) + [True] * field


def test_training_is_deterministic_and_learns():
    corpus = load_corpus()
    config = GPTConfig(vocab_size=27, context=32, width=16, heads=2)
    runs = []
    for _ in range(2):
        model = SmallGPT(config)
        runs.append(train(model, text_batches(corpus.train, batch=4, context=32), steps=25))
    assert runs[0] == runs[1] and len(runs[0]) == 25
    assert math.log(27) - 0.5 < runs[0][0] < math.log(27) + 1
    assert sum(runs[0][-5:]) / 5 < runs[0][0] - 0.5


def test_training_step_is_one_step_of_adamw():
    model, x = SmallGPT(TINY), tokens()
    targets = x.roll(-1, 1)
    wanted = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), targets.flatten())
    before = [p.detach().clone() for p in model.parameters()]
    loss = training_step(model, make_optimizer(model, lr=1e-3), x, targets)
    assert loss.item() == pytest.approx(wanted.item(), abs=1e-6) and not loss.requires_grad
    # the first update of Adam is lr times the sign of the gradient, less the decay
    for p, old in zip(model.parameters(), before):
        step = (p.detach() - old * (1 - 1e-3 * 0.01)).abs()
        assert step.max() < 1e-3 * 1.001


def test_bits_of_a_model_that_knows_nothing():
    corpus = load_corpus()
    model = SmallGPT(GPTConfig(vocab_size=27))
    torch.nn.init.zeros_(model.head.weight)
    assert bits_per_character(model, corpus.held_out) == pytest.approx(math.log2(27), abs=1e-6)


def test_bits_count_each_character_of_each_line_once():
    model = SmallGPT(GPTConfig(vocab_size=5, context=6, width=8, heads=2)).double()
    text = torch.tensor([0, 3, 1, 0, 2, 4, 4, 1, 2, 0, 0, 1, 0])
    bits = 0.0
    for line in ([0, 3, 1, 0], [0, 2, 4, 4, 1, 2, 0], [0, 0], [0, 1, 0]):
        line = torch.tensor([line])
        log_p = torch.log_softmax(model(line[:, :-1]), -1)[0]
        bits -= log_p[torch.arange(len(log_p)), line[0, 1:]].sum().item() / math.log(2)
    for batch in (1, 3, 60):
        got = bits_per_character(model, text, batch=batch)
        assert got == pytest.approx(bits / 12, abs=1e-12)


def test_batches_start_at_a_line():
    corpus = load_corpus()
    draw = text_batches(corpus.train, batch=7, context=40)
    inputs, targets = draw(torch.Generator().manual_seed(0))
    assert inputs.shape == targets.shape == (7, 40) and (inputs[:, 0] == 0).all()
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    text = corpus.decode(corpus.train)
    assert all(corpus.decode(row) in text for row in inputs)


def test_recall_is_possible_with_the_key_only():
    inputs, targets = recall_batches(batch=50, length=9)(torch.Generator().manual_seed(0))
    assert set(inputs[:, 0].tolist()) == set(range(8)) and (inputs[:, -1] == 16).all()
    assert inputs[:, 1:-1].min() == 8 and inputs[:, 1:-1].max() == 15
    assert torch.equal(targets[:, -1], inputs[:, 0])
    assert (targets[:, :-1] == small_gpt.NOT_SCORED).all()


def test_a_key_out_of_reach_changes_nothing_bit_for_bit():
    model = SmallGPT(TINY)
    # two layers reach 2 (W − 1) back; the key is 11 back
    near, far = (recall_logits(windowed(model, w), length=12, fillers=4) for w in (7, 6))
    assert far.shape == (8, 4, 17)
    assert all(torch.equal(far[0], other) for other in far)
    assert not torch.equal(near[0], near[1])
    assert recall_accuracy(far) == 1 / 8
    assert recall_accuracy(torch.eye(8)[:, None].expand(8, 3, 8)) == 1


def test_errors_name_the_argument():
    corpus, model = load_corpus(), SmallGPT(TINY)
    with pytest.raises(ValueError, match="characters of the corpus, got 'Z'"):
        corpus.encode("Zoe")
    with pytest.raises(ValueError, match="held_out_lines must leave some of 2400"):
        load_corpus(held_out_lines=2400)
    with pytest.raises(ValueError, match="at most 12 columns, got 13"):
        model(tokens(1, 13))
    with pytest.raises(ValueError, match=r"tokens must be int64 \(B, N\), got torch.float32"):
        model(tokens().float())
    with pytest.raises(TypeError, match="attention must be callable, got str"):
        model.with_attention("flash")
    with pytest.raises(ValueError, match="longer than context = 500, got 4"):
        text_batches(torch.tensor([0, 1, 2, 0]), batch=1, context=500)
    with pytest.raises(ValueError, match="separator before the first line"):
        bits_per_character(model, torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="lines of at most 12, got one of"):
        bits_per_character(model, torch.tensor([0, *[1] * 12, 0]))
    with pytest.raises(ValueError, match="steps must be at least 1"):
        train(model, recall_batches(batch=1, length=12), steps=0)
    with pytest.raises(ValueError, match="length must be at least 2"):
        recall_batches(batch=1, length=1)
