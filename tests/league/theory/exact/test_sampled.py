"""Intervals of an exploitability from sampled replies: they hold where the truth is known, and are worth having."""

import numpy as np
import pytest

from games.registry import make_game
from league.theory.exact.exploitability import PolicyTable, exploitability, uniform_table
from league.theory.exact.game_value import nash_equilibrium
from league.theory.exact.sampled import resampled_tables, sampled_exploitability

KUHN = "kuhn_poker"
REPEATS = 200
LEAST = 0.95 - 3.0 * (0.05 * 0.95 / REPEATS) ** 0.5  # three binomial errors below 95 %


def equilibrium():
    return nash_equilibrium(make_game(KUHN).spec)


def near_equilibrium():
    uniform = uniform_table(KUHN).probabilities
    rows = {
        key: tuple(0.85 * np.array(row) + 0.15 * np.array(uniform[key]))
        for key, row in equilibrium().probabilities.items()
    }
    return PolicyTable(KUHN, rows)


def anything(game=KUHN, seed=5):
    rng = np.random.default_rng(seed)
    rows = uniform_table(game).probabilities
    return PolicyTable(game, {key: tuple(rng.dirichlet(np.ones(len(row))).tolist()) for key, row in rows.items()})


def gains(table):
    """Each seat's gain, by the definition."""
    from league.theory.exact.exploitability import best_response_values, head_to_head

    values = head_to_head([table] * make_game(table.game).spec.seats)
    return [best - value for best, value in zip(best_response_values(table), values, strict=True)]


def sampled(truth, replies, rng):
    counts = {key: tuple(rng.multinomial(replies, row).tolist()) for key, row in truth.probabilities.items()}
    rows = {key: tuple((np.array(row) / sum(row)).tolist()) for key, row in counts.items()}
    return PolicyTable(truth.game, rows), counts


@pytest.mark.parametrize(
    ("truth", "replies"),
    [(equilibrium, 16), (equilibrium, 64), (near_equilibrium, 32), (anything, 16), (anything, 64)],
)
def test_intervals_hold_the_exploitability_of_the_policy_that_was_sampled(truth, replies):
    truth, rng = truth(), np.random.default_rng(1)
    value, covered, widths, upper = exploitability(truth), 0, [], []
    for repeat in range(REPEATS):
        table, counts = sampled(truth, replies, rng)
        estimate = sampled_exploitability(table, counts, seed=repeat).mean
        assert estimate.mean == pytest.approx(exploitability(table), abs=1e-12)
        covered += estimate.low <= value + 1e-9 and value <= estimate.high + 1e-9
        widths.append(estimate.high - estimate.low)
        upper.append(estimate.mean)
    assert covered / REPEATS >= LEAST
    assert np.mean(widths) < 1.4 / replies**0.5  # of a game whose returns span 4
    assert np.mean(upper) > value  # the best response answers noise: the plain figure is too high


@pytest.mark.parametrize("game", ["kuhn_poker(players=3)", "liars_dice(dice_sides=3)"])
def test_intervals_hold_by_seat_and_in_other_games(game):
    truth, rng, repeats = anything(game), np.random.default_rng(2), 40
    values = [*gains(truth), exploitability(truth)]
    covered = np.zeros(len(values))
    for repeat in range(repeats):
        estimates = sampled_exploitability(*sampled(truth, 32, rng), seed=repeat)
        ends = [*estimates.by_seat, estimates.mean]
        covered += [e.low <= value <= e.high for e, value in zip(ends, values, strict=True)]
    assert (covered / repeats >= 0.95 - 3.0 * (0.05 * 0.95 / repeats) ** 0.5).all()


def test_a_response_is_judged_by_replies_that_it_has_not_seen(monkeypatch):
    """Without its margin the lower end is at most the truth on average; the plain figure is above it."""
    monkeypatch.setattr("league.theory.exact.sampled.Z_95", 0.0)
    truth, rng = near_equilibrium(), np.random.default_rng(4)
    estimates = [sampled_exploitability(*sampled(truth, 8, rng), seed=repeat).mean for repeat in range(60)]
    lows = [estimate.low for estimate in estimates]
    assert np.mean(lows) < exploitability(truth) + 2.0 * np.std(lows) / len(lows) ** 0.5
    assert np.mean([estimate.mean for estimate in estimates]) > 1.5 * exploitability(truth)


def test_more_replies_are_worth_their_price():
    truth, rng = anything(), np.random.default_rng(3)
    few, many = (sampled_exploitability(*sampled(truth, replies, rng)).mean for replies in (16, 1024))
    assert (many.high - many.low) < 0.25 * (few.high - few.low)


def test_replies_that_all_agree_are_not_certain_and_few_of_them_give_no_lower_end():
    rows = uniform_table(KUHN).probabilities
    always = PolicyTable(KUHN, dict.fromkeys(rows, (1.0, 0.0)))
    agreed = sampled_exploitability(always, dict.fromkeys(rows, (8, 0))).mean
    assert agreed.low < agreed.mean < agreed.high
    assert agreed.low > 0.0
    few = sampled_exploitability(always, dict.fromkeys(rows, (3, 0))).mean
    assert few.low == 0.0  # too few to learn a response from some and to judge it by others
    assert few.high > agreed.high


def test_what_is_known_has_no_width_but_the_slack_that_is_given():
    table = anything()
    known = sampled_exploitability(table, {}).mean
    assert known.low == pytest.approx(known.high) == pytest.approx(exploitability(table))
    wider = sampled_exploitability(table, {}, slack=0.01).mean
    assert (known.low - wider.low, wider.high - known.high) == pytest.approx((0.01, 0.01))
    assert sampled_exploitability(uniform_table("tic_tac_toe"), {}) is None  # boards have no plans


def test_only_states_that_were_counted_are_drawn_again():
    truth = anything()
    table, counts = sampled(truth, 8, np.random.default_rng(0))
    one = next(iter(counts))
    drawn = resampled_tables(table, {one: counts[one]}, 50, seed=0)
    assert {key for other in drawn for key in counts if other.probabilities[key] != table.probabilities[key]} == {one}
    mean = np.mean([other.probabilities[one] for other in drawn], axis=0)
    smoothed = (np.array(counts[one]) + 0.5) / (sum(counts[one]) + len(counts[one]) / 2)
    assert mean == pytest.approx(smoothed, abs=0.15)
