"""What becomes of tokens that the learner finds much more, or less, likely than the sampler did."""

import math

import pytest
import torch

from learners.batching import Draw, FreeRow
from learners.losses.draws import DrawTensors
from learners.normalisation import Mismatch

RATIOS = ([1.0, 1.5, 4.0], [0.9, 1.0, 1.05], [0.1])  # p learner / p sampler of three replies' tokens


def drawn():
    """Return the replies as draws, and log pi_old: the sampler's log-probs are all −1 nat."""
    rows = [
        FreeRow(
            "g",
            "g",
            (1,),
            tuple(range(len(ratios))),
            1.0,
            2.0,
            1.0,
            1.0,
            0.0,
            (Draw(0, (-1.0,) * len(ratios), 2.0, 1.0, 0.0),),
        )
        for ratios in RATIOS
    ]
    width = max(map(len, RATIOS))
    old = torch.tensor([[math.log(r) - 1.0 for r in ratios] + [0.0] * (width - len(ratios)) for ratios in RATIOS])
    return DrawTensors.of_rows(rows, width, torch.device("cpu")), old


@pytest.mark.parametrize(
    ("mismatch", "bound", "weights"),
    [
        (Mismatch("truncate"), 2.0, [1.0, 1.5, 2.0, 0.9, 1.0, 1.05, 0.1]),
        (Mismatch("mask", 0.5, 2.0), None, [1.0, 1.5, 0.0, 0.9, 1.0, 1.05, 0.0]),
        # geometric means: 6 ** (1 / 3) = 1.82, about 0.98, 0.1
        (Mismatch("sequence_mask", 0.5, 2.0), None, [1.0, 1.5, 2.0, 0.9, 1.0, 1.05, 0.0]),
        (Mismatch("sequence_mask", 0.5, 1.8), None, [0.0, 0.0, 0.0, 0.9, 1.0, 1.05, 0.0]),
        (Mismatch("drop", 0.5, 2.0), None, [0.0, 0.0, 0.0, 0.9, 1.0, 1.05, 0.0]),
        (Mismatch("drop", 0.05, 5.0), None, [1.0, 1.5, 4.0, 0.9, 1.0, 1.05, 0.1]),
    ],
)
def test_weights_by_hand(mismatch, bound, weights):
    by_draw, old = drawn()
    assert by_draw.importance(old, mismatch, bound).tolist() == pytest.approx(weights, rel=1e-5)


def test_nothing_is_weighed_without_a_bound():
    by_draw, old = drawn()
    assert by_draw.importance(old, Mismatch(), None) is None


def test_how_many_tokens_are_outside():
    by_draw, old = drawn()
    ratio = by_draw.ratios(old)
    assert float(ratio.max()) == pytest.approx(4.0)
    assert by_draw.outside(ratio).tolist() == [0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 2.0]  # of two turns each; 0.9 is inside
