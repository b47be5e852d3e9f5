"""FLOPs are those that PyTorch counts while it computes, without what only padding costs."""

import pytest
import torch
from support.models.adapters import PROMPTS, SHAPE
from support.models.pocket import pocket
from torch.utils.flop_counter import FlopCounterMode

from arena.lm.flops import COUNTED, peak_rate
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


def test_reading_costs_what_pytorch_counts():
    """Causal attention is computed in full, of which half is needed: 3 % here."""
    said, measured = counted(lambda: read(pocket(hidden_size=128), TEXTS))
    assert said == pytest.approx(measured, rel=0.05)


def test_a_prefix_costs_once():
    lm = pocket(hidden_size=128)
    said, _ = counted(lambda: read(lm, PROMPTS))
    alone = sum(counted(lambda prompt=prompt: read(lm, [prompt]))[0] for prompt in PROMPTS)
    assert said < 0.45 * alone


@pytest.mark.parametrize("adapted", [False, True], ids=["all weights", "an adapter"])
def test_learning_costs_what_pytorch_counts(adapted):
    lm = pocket(hidden_size=128)
    lm = Adapters(lm, "base").add(SHAPE, 0) if adapted else lm

    def learn():
        for one in plan_passes(lm, TEXTS, [(5, 6, 7)] * len(TEXTS), 8192):
            one.scores(lm, ScoreOptions()).logprobs.sum().backward()

    said, measured = counted(learn)
    assert said == pytest.approx(measured, rel=0.06)


def test_the_peak_is_measured_once():
    first = peak_rate("cpu", "float32", 1)
    assert first > 1e8
    assert peak_rate("cpu", "float32", 1) == first
