"""Who beats whom: exactly as the game's own payoffs, and by matches with errors worked by hand."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from league.config import RunConfig
from league.config.context import run_context
from league.population.results.payoffs import PayoffTable, Result
from league.population.storage.population import Origin, Snapshot
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.training.board.comparison import compare_population, matched

RPS = "matrix_rps()"


def pure(action: int) -> PolicyTable:
    form = exact_form(RPS)
    return PolicyTable(RPS, {key: tuple(np.eye(3)[action].tolist()) for key in form.keys})


def compared(tables: dict[str, PolicyTable]):
    """Return the comparison of a run's snapshots that have these tables."""
    snapshots = [Snapshot(name, "main", step, None, Origin.TRAINED, {}, None) for step, name in enumerate(tables)]
    state = SimpleNamespace(population=SimpleNamespace(all=lambda: snapshots))
    measured = SimpleNamespace(tables={RPS: {(name, name): table for name, table in tables.items()}})
    return compare_population(run_context(RunConfig(games={RPS: {}}), Path()), state, measured)[RPS]


def test_snapshots_with_tables_beat_each_other_as_the_rules_say():
    """Rock, paper, scissors, and the anchor that plays at random, level with all; one cycle of the widest wins."""
    found = compared({"rock": pure(0), "paper": pure(1), "scissors": pure(2)})
    assert found.players == ("random", "rock", "paper", "scissors")
    expected = [[0, 0, 0, 0], [0, 0, -1, 1], [0, 1, 0, -1], [0, -1, 1, 0]]
    np.testing.assert_allclose(found.means, expected, atol=1e-12)
    assert [(cycle.players, cycle.margin) for cycle in found.cycles] == [
        (("rock", "scissors", "paper"), pytest.approx(1.0))
    ]
    assert found.wins()[0].margin == pytest.approx(1.0)


def test_roles_count_alike_and_their_errors_add_up_as_independent_ones_do():
    """Returns 0, 2 as first: 1 ± t(1) 1; 1, 2, 6 as second: 3 ± t(2) √(7/3). Of their mean: √(161.447 + 43.197) / 2."""
    table = PayoffTable()
    table.apply(
        [Result("a", "b", RPS, "first", 2, 2.0, 4.0, 1.0, 0), Result("a", "b", RPS, "second", 3, 9.0, 41.0, 1.5, 0)]
    )
    means, errors = matched(table, ["a", "b", "c"], RPS)
    assert means[0, 1] == pytest.approx(2.0)
    assert errors[0, 1] * 1.959964 == pytest.approx((12.70620**2 + 4.302653**2 * 7 / 3) ** 0.5 / 2, rel=1e-5)
    assert np.isnan(means[0, 2])
    assert np.isnan(errors[0, 2])
    table.apply([Result("a", "b", RPS, "third", 1, 5.0, 25.0, 1.0, 0)])
    means, errors = matched(table, ["a", "b"], RPS)
    assert means[0, 1] == pytest.approx(3.0)
    assert np.isnan(errors[0, 1]), "of one deal no error is known"
