"""Which starts are played: a scripted solver, P(solve) = sigma(skill - difficulty), and shares in closed form."""

import numpy as np
import pytest

from arena.records import MatchRequest, Start
from league.config.matchmaking import StartsConfig
from league.training.starts.draw import chances_of, draw_starts, from_starts, inclusion
from league.training.starts.frontier import frontier
from league.training.starts.measured import StoredStart, sums_of
from league.training.starts.rules import START_RULES, Moment, ranks, shortened

DIFFICULTIES = np.linspace(-4.0, 4.0, 17)
SKILL = 0.5
SOLVES = 1 / (1 + np.exp(DIFFICULTIES - SKILL))  # sigma(skill - difficulty)


def solved(rates, size=lambda number: 1, **fields):
    """Return starts whose figures are those of very many matches at these solve rates."""
    return [
        StoredStart(
            Start("kuhn_poker", number), size(number), plays=1000, rate=rate, spread=(rate * (1 - rate)) ** 0.5,
            surprise=2 * rate * (1 - rate), best=1.0 if rate else 0.0, last=0, **fields,
        )
        for number, rate in enumerate(rates)
    ]  # fmt: skip


def shares(rule, starts, iteration=1, **settings):
    weights = START_RULES[rule].make(starts, Moment(iteration, 10, StartsConfig(rule=rule, **settings)))
    return weights / weights.sum()


def test_uniform_and_learnability():
    assert shares("uniform", solved(SOLVES)) == pytest.approx(np.full(17, 1 / 17))
    bernoulli = 1 / (2 + 2 * np.cosh(DIFFICULTIES - SKILL))  # sigma(x) (1 - sigma(x))
    assert shares("learnability", solved(SOLVES)) == pytest.approx(bernoulli / bernoulli.sum())


def test_hard_replays_rare_successes_and_nothing_never_solved():
    weights = (1 / (1 + np.exp(SKILL - DIFFICULTIES))) ** 2
    weights[-1] = 0.0
    got = shares("hard", solved([*SOLVES[:-1], 0.0]), power=2.0)
    assert got == pytest.approx(weights / weights.sum())
    forgotten = solved([0.5, 0.0])
    assert shares("hard", [forgotten[0], forgotten[1]._replace(best=0.5)]) == pytest.approx([1 / 3, 2 / 3])


def test_variance_keeps_those_nearest_to_one_half():
    got = shares("variance", solved(SOLVES), keep=0.18)  # 3 of 17: difficulties 0, 0.5 and 1
    assert got == pytest.approx(np.where(abs(DIFFICULTIES - SKILL) <= 0.5, 1 / 3, 0.0))


@pytest.mark.parametrize(("keep", "number"), [(0.03, 1), (0.09, 2), (0.14, 2), (0.15, 3)])
def test_variance_keeps_its_share_to_the_nearest_number(keep, number):
    """Of 17 starts 0.51, 1.53, 2.38 and 2.55; spreads of their own keep them apart."""
    starts = [one._replace(spread=0.1 + 0.01 * place) for place, one in enumerate(solved(SOLVES))]
    assert np.flatnonzero(shares("variance", starts, keep=keep)).tolist() == list(range(17 - number, 17))


def test_relative_spread_is_that_of_a_coin_and_does_not_depend_on_the_scale():
    """Of p: sqrt((1 - p) / p) = exp(-(skill - difficulty) / 2); returns times 1/4 change nothing, and 0 weighs 0."""
    expected = np.exp((DIFFICULTIES - SKILL) / 2)
    starts = solved(SOLVES)
    starts[::2] = [one._replace(rate=one.rate / 4, spread=one.spread / 4) for one in starts[::2]]
    got = shares("relative_spread", [*starts, *solved([0.0])])
    assert got == pytest.approx([*(expected / expected.sum()), 0.0])


@pytest.mark.parametrize("score", ["value_loss", "regret"])
def test_plr_is_ranked_by_score_with_a_share_for_stale_ones(score):
    """Value loss 2p(1 - p) is largest at p = 1/2, regret 1 - p at the hardest; difficulty 0.5 has equal neighbours."""
    distance = abs(DIFFICULTIES - SKILL) if score == "value_loss" else -DIFFICULTIES
    rank = [(distance < own).sum() + ((distance == own).sum() + 1) / 2 for own in distance]
    by_score = np.array(rank) ** -(1 / 0.5)
    stale = np.arange(17) / np.arange(17).sum()
    starts = [one._replace(last=17 - number) for number, one in enumerate(solved(SOLVES))]
    got = shares("plr", starts, iteration=18, score=score, temperature=0.5, staleness=0.3)
    assert got == pytest.approx(0.7 * by_score / by_score.sum() + 0.3 * stale)


def test_equal_scores_share_their_mean_rank():
    assert ranks(np.array([3.0, 5.0, 3.0, 1.0])).tolist() == [2.5, 1.0, 2.5, 4.0]


def test_staged_lets_larger_starts_in_until_the_ramp_is_over():
    starts = solved(SOLVES[:8], size=lambda number: 1 + number // 2)  # sizes 1, 1, 2, 2, 3, 3, 4, 4
    counts = [int((shares("staged", starts, iteration, ramp=0.8) > 0).sum()) for iteration in range(1, 11)]
    assert counts == [2, 2, 4, 4, 6, 6, 8, 8, 8, 8]


def test_expert_prefixes_are_shortened_to_what_the_solver_can_just_not_do():
    """P(solve) = sigma(3 - actions left) is one half at 3: with half mastered, 4 are left at the end, never more."""
    line = [StoredStart(Start("tic_tac_toe", 1, prefix=tuple("abcdefgh")), size=1)]
    for iteration in range(1, 20):
        played = [one._replace(plays=8, rate=1 / (1 + np.exp(one.size - 3))) for one in line]
        frontier = START_RULES["backward"].make(played, Moment(iteration, 20, StartsConfig(rule="backward")))
        assert frontier.tolist() == [0.0] * (len(line) - 1) + [1.0]
        line += shortened(played, StartsConfig(), iteration)
    assert [one.size for one in line] == [1, 2, 3, 4]
    assert [one.start.prefix for one in line] == [tuple("abcdefgh"[:left]) for left in (8, 7, 6, 5)]
    assert [one.parent for one in line] == ["", *(one.name for one in line[:-1])]
    assert [one.born for one in line] == [0, 1, 2, 3]


def test_surprise_of_a_steady_coin_is_twice_its_variance():
    rate, values = 0.25, [1.0] * 25 + [0.0] * 75
    sums = sums_of(values, rate)
    assert (sums.mean, sums.spread**2, sums.surprise / sums.plays) == pytest.approx((0.25, 3 / 16, 3 / 8))


def test_starts_never_played_and_the_floor_have_their_shares():
    starts = solved(SOLVES)
    starts[:4] = [StoredStart(one.start, 1) for one in starts[:4]]
    config = StartsConfig(rule="learnability", unplayed=0.4, floor=0.2)
    got = chances_of(starts, Moment(1, 10, config))
    learnable = SOLVES[4:] * (1 - SOLVES[4:])
    assert got[:4] == pytest.approx(np.full(4, 0.8 * 0.4 / 4 + 0.2 / 17))
    assert got[4:] == pytest.approx(0.8 * 0.6 * learnable / learnable.sum() + 0.2 / 17)


def test_a_mastered_start_is_left_for_its_child_whatever_the_floor():
    line = [StoredStart(Start("tic_tac_toe", 1, prefix=tuple("abcd")), 1, plays=9, rate=1.0)]
    line += shortened(line, StartsConfig(), 1)
    other = StoredStart(Start("tic_tac_toe", 2, prefix=tuple("ab")), 1, plays=9, rate=0.1)
    config = StartsConfig(rule="backward", floor=0.3)
    assert chances_of([line[1], other, line[0]], Moment(2, 10, config)) == pytest.approx([0.5, 0.5, 0.0])


@pytest.mark.parametrize(
    ("weights", "count", "chances"),
    [
        ([1, 1, 2], 1, [0.25, 0.25, 0.5]),
        ([1, 1, 6], 2, [0.5, 0.5, 1.0]),  # nobody is drawn twice: what is over goes to the others
        ([0, 0, 5], 2, [0.5, 0.5, 1.0]),
        ([0, 0, 0], 3, [1.0, 1.0, 1.0]),
    ],
)
def test_the_chance_of_a_start_is_in_proportion_to_its_share_up_to_one(weights, count, chances):
    assert inclusion(np.array(weights, float) / max(sum(weights), 1), count) == pytest.approx(chances)


def test_draws_are_different_and_come_to_their_chances():
    starts, moment = solved(SOLVES), Moment(1, 10, StartsConfig(rule="learnability"))
    expected = inclusion(chances_of(starts, moment), 5)
    counts, rng = np.zeros(17), np.random.default_rng(3)
    for _ in range(1000):
        drawn = [one.start.seed for one in draw_starts(starts, 5, moment, rng)]
        assert len(set(drawn)) == 5
        counts[drawn] += 1
    assert counts / 1000 == pytest.approx(expected, abs=4 * 0.5 / 1000**0.5)


def test_each_iteration_and_game_draws_starts_of_its_own():
    """Matches of one deal share a start; the draw is the same again, and another in the next iteration or game."""
    starts, config = solved(SOLVES), StartsConfig(rule="uniform")

    def drawn(iteration, game="kuhn_poker", run_seed=3):
        requests = [MatchRequest(i, game, 100 + i // 2, i, ("a", "b"), (True, True)) for i in range(12)]
        renamed = [one._replace(start=one.start._replace(game=game)) for one in starts]
        begun = from_starts(requests, renamed, Moment(iteration, 10, config), run_seed)
        assert [one.start for one in begun[::2]] == [one.start for one in begun[1::2]]
        assert len({one.start for one in begun}) == 6
        return [one.deal_seed for one in begun[::2]]

    draws = [drawn(iteration) for iteration in range(1, 6)]
    assert draws == [drawn(iteration) for iteration in range(1, 6)]
    assert len({tuple(sorted(draw)) for draw in [*draws, drawn(1, "leduc_poker"), drawn(1, run_seed=4)]}) == 7


def test_the_frontier_is_the_mean_size_of_what_is_neither_solved_nor_out_of_reach():
    rates, sizes = (0.95, 0.5, 0.05, 0.3, 0.9, 0.11), (9, 2, 7, 4, 1, 6)
    starts = [one._replace(size=size) for one, size in zip(solved(rates), sizes, strict=True)]
    unplayed = StoredStart(Start("kuhn_poker", 99), 50)
    assert frontier("g", [unplayed, *starts]) == pytest.approx(
        {
            "g/starts/played": 6 / 7,
            "g/starts/solved": 2 / 6,
            "g/starts/possible": 3 / 6,
            "g/starts/out_of_reach": 1 / 6,
            "g/starts/frontier": 4.0,
        }
    )
    assert frontier("g", [unplayed]) == {}
