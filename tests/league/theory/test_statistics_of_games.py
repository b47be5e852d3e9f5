"""Percentiles of normalised scores and sizes of mixtures, against numbers worked by hand."""

import numpy as np
import pytest

from league.theory.statistics import effective_size, normalised, percentiles


def test_a_score_is_a_share_of_the_best():
    assert normalised(0.3, 0.6) == 0.5
    assert normalised(0.6, 0.6) == 1.0
    assert normalised(0.0, 0.0) == 1.0, "where nobody has scored nobody is better"


def test_percentiles_over_five_games_lie_between_two_of_them():
    """Five values have ranks 0 to 4, so percentile p is at rank p / 25: the 10th at 0.4, the 50th at 2."""
    shares = dict(zip("abcde", [1.0, 0.0, 0.5, 0.75, 0.25], strict=True))
    assert percentiles(shares) == pytest.approx({10: 0.1, 20: 0.2, 30: 0.3, 40: 0.4, 50: 0.5})


def test_a_game_that_was_never_learned_shows_in_the_lowest_percentile_only():
    """Rank p / 10 of eleven games: the 10th percentile is the second worst."""
    shares = {str(i): 0.0 if i < 2 else 1.0 for i in range(11)}
    assert percentiles(shares) == pytest.approx({10: 0.0, 20: 1.0, 30: 1.0, 40: 1.0, 50: 1.0})


def test_the_size_of_a_mixture() -> None:
    assert effective_size(np.full(7, 1 / 7)) == pytest.approx(7.0)
    assert effective_size(np.array([1.0, 0.0, 0.0])) == 1.0
    assert effective_size(np.array([0.5, 0.25, 0.25])) == pytest.approx(2**1.5)  # 1.5 bits
    with pytest.raises(ValueError, match="sum to one"):
        effective_size(np.array([0.5, 0.6]))
