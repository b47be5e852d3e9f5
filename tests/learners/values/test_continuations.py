"""Playing on from the middle of matches, against the exact values of what was played on."""

import numpy as np
import pyspiel
import pytest

from arena.records import Cast, MatchRequest, Reply, flatten_episodes
from arena.samplers.scripted import Random, Script
from arena.scheduler import play
from games.common.seeds import derive_seed
from games.registry import make_game, with_submatches
from league.config import RolesConfig
from league.config.credit import CreditConfig
from league.config.load import seat_roles
from league.lab.credit.gradient_accuracy import EXACT
from league.lab.credit.matches import BatchPlan, TablePlayer
from league.lab.credit.sampled import FEWEST, compare_by_continuations, cosine_of_turns
from league.population.players.player import Player
from league.theory.exact.exploitability import PolicyTable, exact_form
from learners.trajectories import to_trajectories
from learners.values.continuations import Continuations, ContinuationValues, plays, turn_places

KUHN = make_game("kuhn_poker").spec
ROLES = seat_roles(RolesConfig(), KUHN)
TABLE = PolicyTable("kuhn_poker", dict.fromkeys(exact_form("kuhn_poker").keys, (0.5, 0.5)))


def kuhn(matches):
    """Return matches of uniform play, and an engine that plays so."""
    engine = TablePlayer(TABLE)
    requests = [
        MatchRequest(i, "kuhn_poker", derive_seed("deal", i), derive_seed("draw", i), ("main", "main"), (True, True))
        for i in range(matches)
    ]
    return play(requests, roles_of=lambda _: ROLES, engine_of=lambda _: engine, make_game=make_game), engine


def exact_returns(episode, played):
    """Return OpenSpiel's expected returns of uniform play after the first turns of a match."""
    game = make_game("kuhn_poker")
    game.reset(episode.request.deal_seed)
    for turn in episode.turns[:played]:
        game.apply(turn.action)
    return pyspiel.expected_returns(game.pyspiel_state(), pyspiel.UniformRandomPolicy(game.pyspiel_game), -1, True)


def test_the_error_falls_with_the_number_of_continuations():
    episodes, engine = kuhn(25)
    points = [(episode, played) for episode in episodes for played in range(len(episode.turns) + 1)]
    exact = np.array([exact_returns(*point) for point in points])
    errors = {}
    for count in (4, 64):
        returns = Continuations(plays(ROLES, lambda _: engine), count, seed=1).returns(points)
        assert returns.shape == (len(points), count, 2)
        errors[count] = np.sqrt(((returns.mean(axis=1) - exact) ** 2).mean())
    assert errors[64] == pytest.approx(errors[4] / 4, rel=0.3)


def test_no_two_continuations_draw_alike():
    """Neither of one point, nor of two points of a match, nor of two matches: what they draw is independent."""
    episodes, seeds = kuhn(6)[0], []

    def played(requests):
        seeds.extend(request.sample_seed for request in requests)
        return [episodes[0]] * len(requests)

    points = [(episode, turn) for episode in episodes for turn in range(len(episode.turns))]
    Continuations(played, 3, seed=1).matches(points)
    assert len(set(seeds)) == len(seeds) == 3 * len(points) > 36


def test_a_match_that_is_over_has_its_own_returns_and_equal_seeds_give_equal_ones():
    episodes, engine = kuhn(5)
    ends = [(episode, len(episode.turns)) for episode in episodes]
    continuations = Continuations(plays(ROLES, lambda _: engine), 3)
    assert (continuations.returns(ends) == np.array([[e.returns] * 3 for e in episodes])).all()
    points = [(episode, 0) for episode in episodes]
    assert (continuations.returns(points) == continuations.returns(points)).all()


def test_values_are_what_a_seat_still_earns_from_each_turn_on():
    episodes, engine = kuhn(3)
    trajectories = to_trajectories(episodes, lambda _: ROLES, {"kuhn_poker": 2.0})
    by_index = {episode.request.index: episode for episode in episodes}
    estimator = ContinuationValues(Continuations(plays(ROLES, lambda _: engine), 200), by_index, {"kuhn_poker": 2.0})
    for trajectory, values in zip(trajectories, estimator.estimate(trajectories), strict=True):
        places = turn_places(by_index[trajectory.match], trajectory.seat)
        exact = [exact_returns(by_index[trajectory.match], place)[trajectory.seat] / 2 for place in places]
        assert values == pytest.approx(exact, abs=0.25)


def test_what_was_paid_before_a_turn_is_not_part_of_its_value():
    """Three rounds of a dilemma, drawn at first and then in agreement, 5 a round: only what is left counts."""
    name = "repeated_game(stage_game=matrix_pd(),num_repetitions=3)"
    roles, keys = seat_roles(RolesConfig(), make_game(name).spec), exact_form(name).keys
    drawn, agreed = (TablePlayer(PolicyTable(name, dict.fromkeys(keys, row))) for row in ((0.5, 0.5), (1.0, 0.0)))
    requests = [MatchRequest(i, name, i, derive_seed(i), ("main", "main"), (True, True)) for i in range(6)]
    episodes = plays(roles, lambda _: drawn)(requests)
    trajectories = to_trajectories(episodes, lambda _: roles, {name: 2.0})[::-1]
    by_index = {episode.request.index: episode for episode in episodes}
    continued = ContinuationValues(Continuations(plays(roles, lambda _: agreed), 1), by_index, {name: 2.0})
    for one, values in zip(trajectories, continued.estimate(trajectories), strict=True):
        first = [turn.action for turn in by_index[one.match].turns if turn.seat == 0]
        now = [5.0 if one.seat == 0 or move.casefold().startswith("c") else 0.0 for move in first]
        assert values == pytest.approx([(paid + 5.0 * (2 - k)) / 2.0 for k, paid in enumerate(now)])


def test_the_decisive_turn_has_the_advantage():
    """Who folds the best card to a bet against a player who always bets throws the pot away there, and nowhere else."""
    bets = PolicyTable("kuhn_poker", dict.fromkeys(exact_form("kuhn_poker").keys, (0.0, 1.0)))
    engine = TablePlayer(bets)
    requests = [
        MatchRequest(i, "kuhn_poker", derive_seed(i), i, ("main", "main"), (True, True), prefix=("bet", "pass"))
        for i in range(30)
    ]
    folded = play(requests, roles_of=lambda _: ROLES, engine_of=lambda _: engine, make_game=make_game)
    for episode in folded:
        assert episode.turns == ()
        assert episode.returns == (1.0, -1.0)
    called = Continuations(plays(ROLES, lambda _: engine), 2)
    matches = play(
        [request._replace(prefix=("bet",)) for request in requests],
        roles_of=lambda _: ROLES,
        engine_of=lambda _: engine,
        make_game=make_game,
    )
    worth = called.returns([(match, 0) for match in matches])[:, :, 1].mean(axis=1)
    lost = np.array([-1.0] * 30) - worth  # the fold's advantage
    assert set(np.round(lost, 9)) == {
        -3.0,
        1.0,
    }  # −1 in place of +2 with the better card, −1 in place of −2 with the worse


def test_the_cosine_of_turns_takes_the_noise_of_the_estimates_out():
    rng = np.random.default_rng(0)
    truth, other = rng.normal(size=(2, 20_000))
    first, second = truth + rng.normal(size=(2, 20_000)) * 2.0
    found = cosine_of_turns(0.6 * truth + 0.8 * other, (first + second) / 2, first * second)
    assert found.mean == pytest.approx(0.6, abs=0.06)
    assert found.low < 0.6 < found.high
    assert cosine_of_turns(truth[: FEWEST - 1], truth[: FEWEST - 1], truth[: FEWEST - 1] ** 2) is None


def test_rules_are_compared_where_nothing_is_enumerated():
    player = Player("uniform", KUHN, TablePlayer(TABLE), ROLES, ((("main", 1.0),),) * 2)
    plan = BatchPlan(64, 8, 2)
    found, left_out = compare_by_continuations(player, CreditConfig(), plan, ["rae", "rloo", "gae_turn"], turns=60)
    assert [rule.rule for rule in found] == [EXACT, "rae", "rloo"]
    assert found[0].overall.cosine.mean > found[1].overall.cosine.mean > 0.2
    assert found[0].overall.wrong_sign == 0.0
    assert list(left_out) == ["gae_turn"]


class Certain:
    """Replies by what it sees alone, so that whatever continues continues alike."""

    def sample(self, requests):
        return [Reply(self._one(request)) for request in requests]

    def _one(self, request):
        if not request.legal:  # words: a task
            return f"{derive_seed(request.observation) % 90 + 10} + 34"
        if request.role.game == "sums" and derive_seed(request.game.task()) % 3:  # some are solved
            return request.game.scripts()["optimal"](request.rng)
        return sorted(request.legal, key=lambda text: derive_seed(request.observation, text))[0]


def opened(game, engine, matches):
    """Return matches of a game that opens others, flat, by index; and how more of them are played."""
    names = with_submatches([game])
    roles = {name: seat_roles(RolesConfig(), make_game(name).spec) for name in names}
    seats = {name: make_game(name).spec.seats for name in names}
    cast = tuple(Cast(name, ("main",) * seats[name], (True,) * seats[name]) for name in names[1:])

    def played(requests):
        return play(requests, roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game)

    players = ("main",) * seats[game], (True,) * seats[game]
    requests = [MatchRequest(i, game, derive_seed("d", i), derive_seed("s", i), *players, cast=cast) for i in matches]
    flat = flatten_episodes(played(requests))
    trajectories = to_trajectories(flat, roles.__getitem__, dict.fromkeys(names, 1.0))
    return trajectories, {episode.request.index: episode for episode in flat}, played


OPENING = ["lookup_chain", "propose_sums(tasks=2)", "advised(repeated_kuhn_poker(hands=1),form=1)"]


@pytest.mark.parametrize("game", OPENING)
def test_submatches_and_who_opens_them_go_on_with_what_the_opener_makes_of_it(game):
    """With certain players every continuation is the match again: values are what was paid from the turn on."""
    trajectories, by_index, played = opened(game, Certain(), range(12))
    assert any(t.parent is not None and t.match_return for t in trajectories)
    scales = dict.fromkeys(with_submatches([game]), 1.0)
    continued = ContinuationValues(Continuations(played, 2, matches=by_index), by_index, scales)
    for one, values in zip(trajectories, continued.estimate(trajectories), strict=True):
        left = [sum(one.rewards[k:]) for k in range(len(one.turns))]
        assert values == pytest.approx(left)


@pytest.mark.thorough
@pytest.mark.parametrize("game", OPENING)
def test_the_value_of_a_submatchs_first_turn_is_its_mean_return(game):
    trajectories, by_index, played = opened(game, Random(), range(60))
    scales = dict.fromkeys(with_submatches([game]), 1.0)
    continued = ContinuationValues(Continuations(played, 4, 7, by_index), by_index, scales)
    for below in (True, False):
        part = [t for t in trajectories if (t.parent is not None) == below and t.turns]
        values = np.array([values[0] for values in continued.estimate(part)])
        apart = values - [t.match_return for t in part]
        assert apart.std() > 0.0 or (game.startswith("advised") and not below)  # nobody reads the advice
        by_root = {}
        for t, difference in zip(part, apart, strict=True):
            by_root.setdefault(t.root if t.root is not None else t.match, []).append(difference)
        sums = np.array([sum(of_root) for of_root in by_root.values()])  # matches of one root are not independent
        assert abs(sums.mean()) <= 4.0 * sums.std() / np.sqrt(len(sums))


def test_a_submatch_that_goes_on_otherwise_is_paid_by_what_its_opener_makes_of_that():
    """Workers and planners at random, who continue without a mistake: a worker that answers is paid 0.1 + 0.4 + 0.5."""
    trajectories, by_index, _ = opened("lookup_chain", Random(), range(40))
    _, _, played = opened("lookup_chain", Script("optimal"), [])
    workers = [t for t in trajectories if t.parent is not None]
    scales = {"lookup_chain": 1.0, workers[0].game: 1.0}
    continued = ContinuationValues(Continuations(played, 1, matches=by_index), by_index, scales)
    before = [[other.parent for other in workers[:number]].count(t.parent) for number, t in enumerate(workers)]
    early = [t for t, number in zip(workers, before, strict=True) if number == 0]  # nobody was wrong before
    values = [values[0] for values in continued.estimate(early)]
    assert len(values) > 10
    assert values == pytest.approx([1.0] * len(values))
    assert min(t.match_return for t in early) < 0.5
    later = [values[0] for values in continued.estimate([t for t in workers if t not in early])]
    assert {round(value, 9) for value in later} == {0.6, 1.0}  # right itself, whatever others made of the match
