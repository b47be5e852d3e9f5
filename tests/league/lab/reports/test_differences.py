"""Differences of runs: by seed where they share seeds, with intervals that textbooks and SciPy give."""

import pytest
from scipy.stats import ttest_ind

from league.config.load import validate
from league.lab.reports.differences import compare, possible_values, seed_mean, value_at, welch
from league.lab.reports.run_record import RunRecord, Series

METRIC = "kuhn_poker/exploitability"


def record(name, values, seed=0, metric=METRIC, **settings):
    config = validate({"seed": seed, "games": {"kuhn_poker": {}}, **settings})
    series = Series(tuple(range(len(values))), tuple(values))
    return RunRecord(name, None, config, len(values) - 1, {metric: series}, [], {}, {}, {}, {}, {})


def test_a_mean_over_seeds_has_students_interval():
    """Three values 1, 2, 3: sd 1, t(2) = 4.3027, so the half-width is 4.3027/√3 = 2.4841."""
    estimate = seed_mean([1.0, 2.0, 3.0])
    assert estimate == pytest.approx((2.0, 2.0 - 2.4841, 2.0 + 2.4841), abs=1e-4)
    assert seed_mean([1.0])[1:] == (None, None)


def test_different_seeds_are_compared_as_welch_says():
    a, b = [0.5, 0.7, 0.4, 0.6], [0.2, 0.3, 0.9]
    interval = ttest_ind(b, a, equal_var=False).confidence_interval()
    estimate = welch(a, b)
    assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high))


def test_conditions_are_compared_seed_by_seed():
    """The differences are −0.1, −0.2, −0.3: mean −0.2, half-width 0.24841."""
    base = [record(f"a{seed}", [1.0, 0.5 + seed / 10], seed) for seed in range(3)]
    better = [record(f"b{seed}", [1.0, 0.4], seed, iterations=300) for seed in range(3)]
    comparison = compare([*base, *better])
    assert [sorted(condition.runs) for condition in comparison.conditions] == [[0, 1, 2], [0, 1, 2]]
    assert comparison.conditions[1].name == "iterations = 300"
    [row] = comparison.rows
    [difference] = row.differences
    assert difference.pairs
    assert difference.by_seed == pytest.approx({0: -0.1, 1: -0.2, 2: -0.3})
    assert difference.estimate == pytest.approx((-0.2, -0.4484, 0.0484), abs=1e-4)


def test_conditions_that_share_a_single_seed_are_compared_by_their_means():
    """One pair says nothing of the spread, and all six runs do."""
    a, b = [0.5, 0.7, 0.4], [0.2, 0.3, 0.9]
    runs = [record(f"a{seed}", [1.0, value], seed) for seed, value in enumerate(a)]
    runs += [record(f"b{seed}", [1.0, value], seed, iterations=300) for seed, value in enumerate(b, 2)]
    [row] = compare(runs).rows
    [difference] = row.differences
    interval = ttest_ind(b, a, equal_var=False).confidence_interval()
    assert not difference.pairs
    assert difference.by_seed == pytest.approx({2: 0.2 - 0.4})
    assert difference.estimate == pytest.approx((sum(b) / 3 - sum(a) / 3, interval.low, interval.high))


def test_one_seed_gives_a_difference_and_no_interval():
    [row] = compare([record("a", [0.5]), record("b", [0.2], iterations=300)]).rows
    assert row.differences[0].estimate == pytest.approx((-0.3, None, None))


def test_runs_of_one_configuration_are_one_condition():
    comparison = compare([record("a", [0.5], 0), record("b", [0.3], 1)])
    assert len(comparison.conditions) == 1
    assert comparison.settings == {"seed": [0, 1]}
    assert comparison.rows[0].means[0].mean == pytest.approx(0.4)


def test_figures_are_compared_at_the_iteration_that_all_have_done():
    comparison = compare([record("a", [0.9, 0.5, 0.1]), record("b", [0.8, 0.6], seed=1)])
    assert comparison.iteration == 1
    assert comparison.rows[0].values == [0.5, 0.6]
    assert value_at(record("a", [0.9]), "absent", 1) is None


@pytest.mark.parametrize(
    ("metric", "least", "greatest"),
    [
        ("kuhn_poker/score/first", 0.0, 1.0),
        ("kuhn_poker/score_against_random", 0.0, 1.0),
        ("probe/score", 0.0, 1.0),
        ("illegal_rate", 0.0, 1.0),
        ("kuhn_poker/exploitability", 0.0, 4.0),  # returns are from -2 to 2
        ("probe/kuhn_poker/mixture_exploitability", 0.0, 4.0),
        ("tiny_hanabi/return", 0.0, 10.0),
        ("tiny_hanabi/return/signaller", 0.0, 10.0),
        ("lookup_chain/held_out_return_of_random", 0.0, 1.0),
        ("tokens_per_second", 0.0, float("inf")),
        ("rating", -float("inf"), float("inf")),
        ("no_such_game/return", -float("inf"), float("inf")),
    ],
)
def test_what_a_figure_can_be_is_known(metric, least, greatest):
    assert possible_values(metric) == (least, greatest)


def test_no_interval_goes_beyond_what_is_possible():
    """Scores 0.9 and 1 have the mean 0.95 ± 0.64, and the difference to 0.1 and 0 is −0.9 ± 1.27 by seed."""
    metric = "kuhn_poker/score_against_random"
    good = [record(f"a{seed}", [value], seed, metric) for seed, value in enumerate((0.9, 1.0))]
    bad = [record(f"b{seed}", [value], seed, metric, iterations=300) for seed, value in enumerate((0.1, 0.0))]
    [row] = compare([*good, *bad]).rows
    assert [mean[1:] for mean in row.means] == [
        (pytest.approx(0.3147, abs=1e-4), 1.0),
        (0.0, pytest.approx(0.6853, abs=1e-4)),
    ]
    [difference] = row.differences
    assert difference.estimate.mean == pytest.approx(-0.9)
    assert difference.estimate.low == -1.0
    assert difference.estimate.high > -0.9
