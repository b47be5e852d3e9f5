"""FLOPs are those that PyTorch counts while it computes, and those of attention, which it does not count on a CPU."""

import pytest
import torch
from support.models.adapters import PROMPTS, SHAPE
from support.models.pocket import pocket
from torch.utils.flop_counter import FlopCounterMode

from arena.flops import COUNTED, peak_rate
from arena.lm.logprobs import ScoreOptions
from arena.lm.lora import Adapters
from arena.lm.scoring import plan_passes

LENGTHS = (60, 60, 60)  # of equal length: nothing is padded
TEXTS = [tuple(range(40 + i, 40 + i + length)) for i, length in enumerate(LENGTHS)]


def counted(run):
    """Return the FLOPs that a run is said to have and those that PyTorch counts."""
    before = COUNTED.total
    with FlopCounterMode(display=False) as counter:
        run()
    return COUNTED.total - before, counter.get_total_flops()


@torch.no_grad()
def read(lm, texts):
    tries = [lm.trie(("bet", "pass"))] * len(texts)
    for chunk in lm.plan_choice(texts, tries, 8192):
        lm.choice_logprobs(chunk, tries, 1.0)


def attention(layers, length):
    """Return the FLOPs of attention by 4 heads of 32 numbers in ``TEXTS``: each token sees those up to itself."""
    return 2 * 2 * layers * 4 * 32 * len(TEXTS) * length * (length + 1) / 2


def test_reading_costs_what_pytorch_counts():
    """By the model's modules. A small model's own passes do less, and are said to cost what the model does."""
    lm = pocket(hidden_size=128)
    fewer = counted(lambda: read(lm, TEXTS))
    lm.plain = None
    said, measured = counted(lambda: read(lm, TEXTS))
    assert said == measured + attention(2, 60)
    assert fewer[0] == said
    assert fewer[1] < 0.9 * measured


def test_a_prefix_costs_once():
    lm = pocket(hidden_size=128)
    said, _ = counted(lambda: read(lm, PROMPTS))
    alone = sum(counted(lambda prompt=prompt: read(lm, [prompt]))[0] for prompt in PROMPTS)
    assert said < 0.45 * alone


@pytest.mark.parametrize("adapted", [False, True], ids=["all weights", "an adapter"])
def test_learning_costs_what_pytorch_counts(adapted):
    """An adapter's lowest layer needs no gradient of its input: 3 % of ten layers."""
    lm = pocket(hidden_size=128, layers=10)
    lm = Adapters(lm, "base").add(SHAPE, 0) if adapted else lm

    def learn():
        for one in plan_passes(lm, TEXTS, [(5, 6, 7)] * len(TEXTS), 8192):
            one.scores(lm, ScoreOptions()).logprobs.sum().backward()

    said, measured = counted(learn)
    expected = measured + 3 * attention(10, 62)  # the last of three tokens of a reply is not read
    assert said == pytest.approx(expected, rel=0.06 if adapted else 1e-9)


def test_the_peak_is_measured_once():
    first = peak_rate("cpu", "float32", 1)
    assert first > 1e8
    assert peak_rate("cpu", "float32", 1) == first
