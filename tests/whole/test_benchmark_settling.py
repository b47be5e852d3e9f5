"""The table that learns by the update's rule, the study of last iterates, and OpenSpiel's solvers beside them."""

import numpy as np
import pytest

from benchmarks.report.comparison import comparison_lines
from benchmarks.simulations import openspiel_solvers, settling
from benchmarks.simulations.settling import Rule, learn
from benchmarks.simulations.settling_table import Table
from benchmarks.studies.self_play import settling as study
from league import load_config


@pytest.fixture(scope="module")
def kuhn():
    return Table("kuhn_poker")


def uniform(table):
    return table.normalised(np.zeros(table.size))


@pytest.mark.parametrize(("game", "expected"), [("kuhn_poker", 11 / 24), ("leduc_poker", 2.373611)])
def test_uniform_play_is_as_exploitable_as_is_known(game, expected):
    """NashConv 11/12 and 4.747222 by two."""
    table = Table(game)
    assert table.exploitability(uniform(table)) == pytest.approx(expected, abs=1e-6)


def test_sampled_matches_are_on_average_the_expected_ones(kuhn):
    """Turns of each sequence: 40,000 matches have a standard error of 100 at most."""
    policy, rng = uniform(kuhn), np.random.default_rng(0)
    turns = [
        np.bincount(batch.sequence, batch.times, kuhn.size)
        for batch in (kuhn.all_matches(policy, 40_000), kuhn.sampled(policy, 40_000, rng))
    ]
    assert np.abs(turns[0] - turns[1]).max() < 500
    assert turns[0][kuhn.parent < kuhn.seats].sum() == pytest.approx(2 * 40_000)  # each seat has one first turn


def test_with_constant_entropy_exact_updates_end_in_the_logit_equilibrium(kuhn):
    """There log pi = advantages / alpha up to a constant in each state (McKelvey and Palfrey 1998)."""
    policy, alpha = uniform(kuhn), 0.3
    for _ in range(400):
        batch = kuhn.all_matches(policy, 10**9)
        gains = kuhn.returns[batch.terminal, kuhn.seat[batch.sequence]]
        advantages, turns = settling._advantages(kuhn, policy, batch, gains)
        weights = {"kl_old": 3.0, "entropy": alpha, "magnet": 0.0}
        policy = kuhn.normalised(settling._updated(policy, policy, advantages, turns, weights))
    assert policy == pytest.approx(kuhn.normalised(advantages / alpha), abs=1e-4)


def test_a_rule_without_noise_settles_and_the_same_seed_gives_the_same_course(kuhn):
    rule = settling.RETURNS._replace(exact=True)
    course = learn(kuhn, rule, 60, 1024, 101)
    assert course.newest[-1] < 0.8 * course.newest[4] < 0.1
    noisy = Rule("noisy", (2.0, 2.0), (0.15, 0.04))
    assert learn(kuhn, noisy, 20, 64, 1) == learn(kuhn, noisy, 20, 64, 1) != learn(kuhn, noisy, 20, 64, 2)


def test_rewards_by_log_ratio_keep_a_game_zero_sum(kuhn):
    """Of a whole match, from each seat's first turn on, what one seat pays the other gets."""
    rng = np.random.default_rng(0)
    ratios = kuhn.normalised(rng.normal(size=kuhn.size)) - uniform(kuhn)
    batch = kuhn.all_matches(uniform(kuhn), 1)
    paid = settling._paid(kuhn, ratios, batch, 0.7)
    first = kuhn.parent[batch.sequence] < kuhn.seats
    by_match = np.bincount(batch.terminal[first], paid[first], len(kuhn.returns))
    assert by_match == pytest.approx(0.0, abs=1e-12)


def test_plain_self_play_differs_from_settle_in_what_makes_it_settle():
    plain, settle = study.conditions("leduc_poker").values()
    assert (plain.objective.magnet, plain.policy("main").average) == (0.0, None)
    assert settle.policy("main").average == load_config("settle").policy("main").average
    matches = [config.iterations * config.games["leduc_poker"].matches for config in (plain, settle)]
    assert matches[0] == matches[1]
    assert plain.model == settle.model


def test_a_study_shows_the_newest_snapshot_and_the_last_quarter(monkeypatch, tmp_path):
    class Run:
        config = load_config("settle")

        def iterations(self):
            points = enumerate((0.4, 0.2, 0.1, 0.05, 0.07))
            return [{"iteration": 10 * i, "kuhn_poker/exploitability": value} for i, value in points]

    monkeypatch.setattr(study, "open_run", lambda _: Run())
    figures = study.measure(tmp_path)
    assert figures == pytest.approx({"figure": 0.07, "quarter": 0.06, "rise": 0.02})
    runs = {(name, 0): {**figures, "seconds": 3.0} for name in ("plain self-play", "settle")}
    monkeypatch.setattr(study, "measure_runs", lambda *_: runs)
    lines = comparison_lines(study.measure_study("settle-kuhn", [0], 1, tmp_path)["tables"])
    assert lines[-1] == "| settle | 0.070 (one seed) | – | 0.060 | 0.020 | 3.000 |"


def test_openspiels_solvers_come_near_equilibrium():
    steps = openspiel_solvers.Budget(60.0, 20)
    assert openspiel_solvers.solve("CFR+, average, whole tree", "kuhn_poker", steps)["figure"] < 0.05
    last = openspiel_solvers.solve("mirror descent, last iterate, whole tree", "kuhn_poker", steps)
    assert last["figure"] < 11 / 24
    assert last["steps"] == 20
