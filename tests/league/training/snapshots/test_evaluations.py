"""What is measured of snapshots: a plugin's evaluation is asked after each freeze, with tables where there are any."""

import pytest
from support.processes.runs import TINY

import league
from games.common import plugins
from games.common.errors import UsageError
from games.registry import make_game
from league.config.load import load
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.theory.exact.exploitability import exploitability
from league.training.board.metrics_log import read_metrics
from league.training.loop.session import train
from league.training.snapshots.evaluations import EVALUATIONS, TABLES, Entry


@pytest.fixture(autouse=True)
def own_plugins(monkeypatch):
    monkeypatch.setattr(plugins, "_registered", {})


def line_ups(measured):
    """Return how many line-ups there are, and how many have a table."""
    return {"line_ups": float(len(measured.line_ups)), "tables": float(len(measured.tables))}


def newest(measured):
    """Return the step of the newest snapshot."""
    assert measured.tables, "asked only where there are tables"
    return {"newest": float(measured.snapshots[-1].step)}


def test_a_plugins_evaluation_is_asked_after_each_freeze(tmp_path):
    """In a game that is too large for tables only the one that needs none."""
    league.register_evaluation("line_ups", line_ups)
    league.register_evaluation("newest", Entry(newest, needs=frozenset({TABLES})))
    (tmp_path / "two.toml").write_text(TINY, encoding="utf-8")
    overrides = ["iterations=2", "snapshot_every=1", "games.lookup.matches=8", "evaluation.exact_limit=20"]
    train(load(str(tmp_path / "two.toml"), overrides), tmp_path / "run")
    lines = list(read_metrics(tmp_path / "run"))
    assert [line["kuhn_poker/line_ups"] for line in lines] == [1.0, 2.0, 3.0]
    assert [line["kuhn_poker/tables"] for line in lines] == [1.0, 2.0, 3.0]
    assert [line["kuhn_poker/newest"] for line in lines] == [0.0, 1.0, 2.0]
    assert [line["lookup/line_ups"] for line in lines] == [1.0, 2.0, 3.0]
    assert [line["lookup/tables"] for line in lines] == [0.0, 0.0, 0.0]
    assert not any("lookup/newest" in line for line in lines)


@pytest.mark.thorough
def test_a_large_game_is_measured_every_so_many_freezes(tmp_path):
    """As the snapshot's table says, which a higher limit would allow."""
    game = "liars_dice(dice_sides=2,numdice=1)"
    (tmp_path / "dice.toml").write_text(TINY + f'\n[games."{game}"]\nmatches = 8\n', encoding="utf-8")
    overrides = ["iterations=2", "snapshot_every=1", "evaluation.exact_limit=20", "evaluation.large_every=2"]
    train(load(str(tmp_path / "dice.toml"), overrides), tmp_path / "run")
    measured = [line.get(f"{game}/exploitability") for line in read_metrics(tmp_path / "run")]
    with Engines() as engines:
        player = resolve(str(tmp_path / "run"), make_game(game).spec, engines)
        expected = exploitability(player.tabulate().table)
    assert measured == [pytest.approx(measured[0]), None, pytest.approx(expected, abs=1e-5)]


def test_what_is_no_evaluation_is_refused():
    with pytest.raises(UsageError, match=r"A plugin gives 3 as the evaluation 'three', which is an int, not an eval"):
        league.register_evaluation("three", 3)
    with pytest.raises(UsageError, match="adds the evaluation 'exact', but the league itself has one of that name"):
        league.register_evaluation("exact", line_ups)
    assert [TABLES in evaluation.needs for evaluation in EVALUATIONS.values()] == [True] * 5 + [False]
