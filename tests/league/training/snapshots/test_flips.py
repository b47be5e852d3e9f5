"""The gate by flips: matches are compared one by one, and a regression is not outweighed beyond its limit."""

from pathlib import Path

import pytest
from support.processes.runs import TINY

from arena.records import EndReason, Episode
from games.registry import make_game
from league import load_config, train
from league.config import RunConfig
from league.config.context import run_context
from league.population.storage.population import Population
from league.training.board.metrics_log import read_metrics
from league.training.loop.failures import RunFailed, stop_if_going_wrong
from league.training.monitors.alarms import Alarm
from league.training.snapshots.gate import Flip, find_flips, gate_matches, outweigh
from roles.cards import load_roles

GAME = "kuhn_poker"
SPEC = make_game(GAME).spec
ROLES = load_roles(SPEC)


def requests(seed=0, first=0, parent="main-000010"):
    config = RunConfig(seed=seed, games={GAME: {}}, evaluation={"matches": 12})
    return gate_matches(run_context(config, Path()), "main", parent, {"main": parent}, GAME, first, suite=True)


def episodes(results):
    """Return the suite's matches with these returns of the first seat: of each deal the snapshots', then two more."""
    played = requests()[: 3 * len(results)]
    flat = [value for deal in results for value in deal]
    return [
        Episode(request, (), (value, -value), EndReason.FINISHED) for request, value in zip(played, flat, strict=True)
    ]


def test_the_suite_is_the_same_at_every_freeze():
    one, later = requests(), requests(first=500, parent="main-000090")
    assert [(r.deal_seed, r.sample_seed) for r in one] == [(r.deal_seed, r.sample_seed) for r in later]
    assert len({r.deal_seed for r in one}) == 4
    assert len({(r.deal_seed, r.sample_seed) for r in one}) == 4  # all matches of a deal draw alike
    assert {r.deal_seed for r in requests(seed=1)}.isdisjoint(r.deal_seed for r in one)


def test_flips_are_counted_from_the_seat_of_the_live_policy():
    """Returns of the first seat: the snapshots', with the live policy first, with it second."""
    flips, pairs = find_flips(episodes([(-1, 1, -1), (2, 1, 1), (1, 1, -2), (1, -1, 1)]), "main", lambda _: SPEC)
    assert pairs == 8
    assert [(flip.seat, flip.before, flip.after, flip.fixed) for flip in flips] == [
        (0, -1, 1, True),
        (1, -1, 2, True),
        (0, 1, -1, False),
    ]


def flip(fixed):
    return Flip(GAME, 0, 0, 0, *((-1.0, 1.0) if fixed else (1.0, -1.0)))


@pytest.mark.parametrize(
    ("fixed", "broken", "limit", "promoted"),
    [
        *((3, 2, 0.02, True), (2, 2, 1.0, False), (9, 3, 0.02, False)),
        *((9, 3, 0.03, True), (1, 0, 0.0, True), (0, 0, 1.0, False)),
    ],
)
def test_fixed_must_outweigh_broken_within_the_limit(fixed, broken, limit, promoted):
    flips = [flip(True)] * fixed + [flip(False)] * broken
    assert outweigh(flips, 100, limit) is promoted


@pytest.mark.thorough
def test_a_policy_that_is_refused_adds_no_snapshot_and_goes_on(tmp_path):
    """Its weights hardly move, so that no match flips and the suite lets nothing through; it is tried again."""
    (tmp_path / "run.toml").write_text(TINY)
    settings = ["optimizer.learning_rate=1e-12", "evaluation.gate_flips=1.0", "snapshot_every=1", "iterations=3"]
    train(load_config(tmp_path / "run.toml", *settings), tmp_path / "run")
    assert [snapshot.step for snapshot in Population(tmp_path / "run" / "population").all("main")] == [0]
    lines = [line for line in read_metrics(tmp_path / "run") if line["iteration"]]
    assert [line["main/promoted"] for line in lines] == [0.0, 0.0, 0.0]
    assert {line["main/flips/fixed"] + line["main/flips/broken"] for line in lines} == {0.0}
    assert sorted(path.name for path in (tmp_path / "run" / "flips").iterdir()) == [
        f"main-{iteration:06d}.json" for iteration in (1, 2, 3)
    ]


class State:
    iteration = 7

    def __init__(self, *names):
        self.policies = {"main": None}
        self.alarms = {"ringing": [list(Alarm(name, f"{GAME}/first", "it does.", 5)) for name in names]}


def test_a_run_stops_at_an_alarm_that_it_was_told_to_stop_at():
    config = RunConfig(games={GAME: {}}, alarms={"stop": ["hack"]})
    stop_if_going_wrong(config, State("mismatch", "cycle"))
    with pytest.raises(RunFailed, match=r"Alarm since iteration 5, hack of kuhn_poker/first: .* iteration 7 is saved"):
        stop_if_going_wrong(config, State("mismatch", "hack"))
