"""A run in sentences, and the table of who beats whom, from made-up records."""

from types import SimpleNamespace

import numpy as np
import pytest

from games.registry import make_game
from league.config.load import validate
from league.lab.reports.headline import headline
from league.lab.reports.payoffs import SHOWN_PLAYERS, _matrix
from league.lab.reports.run_record import RunRecord, Series

KUHN = "kuhn_poker"


def record(metrics):
    config = validate({"iterations": 9, "games": {KUHN: {}}})
    series = {name: Series(tuple(range(1, len(values) + 1)), tuple(values)) for name, values in metrics.items()}
    return RunRecord("run", None, config, 9, series, [], {KUHN: make_game(KUHN).spec}, {}, {}, {}, {})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.5, 0.3, 0.2], "exploitability 0.500 → 0.200 (0 is"),
        ([0.5, 0.1, 0.2], "exploitability 0.500 → 0.200 (best 0.100 at iteration 2; it has got worse since) (0 is"),
        ([0.5, 0.19, 0.2], "exploitability 0.500 → 0.200 (0 is"),  # within a tenth
    ],
)
def test_a_curve_that_got_worse_is_told_with_where_it_was_best(values, words):
    [sentence] = [s for s in headline(record({f"{KUHN}/exploitability": values}), ()).sentences if "→" in s]
    assert words in sentence


def test_an_alarm_rings_since_its_last_pause():
    rung = {"alarms/drift": [1.0, 0.0, 1.0, 1.0, 1.0], "alarms/entropy": [0.0, 1.0, 1.0, 0.0, 0.0]}
    found = headline(record(rung), ())
    assert found.ringing == ["The alarm drift is ringing, for 4 iterations, since 3."]
    assert "The alarm entropy rang in 2 iterations, last in 3." in found.sentences


def test_of_a_large_population_each_cell_has_its_own_pairs_interval():
    """Of 19 players 12 are shown. Errors and matches are told apart by the pair: (1 + a + b) / 100, and a + b + 2."""
    size = SHOWN_PLAYERS + 7
    players = tuple(f"p{number}" for number in range(size))
    row, column = np.indices((size, size))
    matrix = SimpleNamespace(
        players=players,
        margin=(column - row) / 1000.0,
        matches=row + column + 2,
        pooled_error=lambda: (1.0 + row + column) / 1.959963984540054 / 100,
    )
    ranking = [SimpleNamespace(player=player) for player in players]
    standings = SimpleNamespace(cooperative=False, matrix=matrix, ranking=ranking, spec=SimpleNamespace(name="game"))
    snapshots = [SimpleNamespace(id=f"p{number}", step=number, policy="main") for number in range(0, size, 2)]
    table = _matrix(SimpleNamespace(snapshots=snapshots, tables={}), standings)
    assert table.left_out == 7
    assert set(players[1::2]) < set(table.players), "those that are no snapshots are all shown"
    for one, cells in zip(table.players, table.rows, strict=True):
        for other, cell in zip(table.players, cells, strict=True):
            a, b = int(one[1:]), int(other[1:])
            if a != b:
                assert cell.title.endswith(f"± {(1 + a + b) / 100:.2f}, {a + b + 2} matches"), cell.title
