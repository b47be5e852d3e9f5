"""A player's results by role, from made-up line-ups."""

import numpy as np
import pytest

from league.lab.standings.payoff_matrix import role_results
from league.population.results.match_store import Cells


@pytest.mark.parametrize(("deals", "known"), [((2, 2), False), ((2, 3), True)])
def test_by_role_an_error_takes_five_deals_however_many_matches_they_had(deals, known):
    """Two line-ups of 40 and 120 matches: means weighed 1 to 3, so 0.25 and an error of 0.5 · ¼ + 0.1 · ¾."""
    cells = Cells(
        ("a", "b", "c"),
        np.array([[0, 1, 2], [0, 2, 1]]),
        np.array([40, 120]),
        np.array(deals),
        np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]]),
        np.array([[0.5, 0.5, 0.5], [0.1, 0.1, 0.1]]),
        np.full((2, 3), 0.5),
        np.full((2, 3), 0.2),
    )
    found = role_results(cells, ("first", "second", "second"), "a")
    assert [(one.opponent, one.role, one.matches, one.returns) for one in found] == [
        ("b", "first", 160, 0.25),
        ("c", "first", 160, 0.25),
    ]
    for one in found:
        assert one.returns_error == pytest.approx(0.2 if known else np.nan, nan_ok=True)
        assert one.score_error == pytest.approx(0.2 if known else np.nan, nan_ok=True)
