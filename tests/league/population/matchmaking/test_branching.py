"""Forks of matches: where they begin, that they never cost more than the budget, and that their credit is exact."""

import random
from math import log
from statistics import pstdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.learning.trajectories import credit, trajectory, turn

from arena.records import MatchRequest, Reply, TokenTrace
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from league.config import RolesConfig
from league.config.checks.features import most_retries
from league.config.load import load, run_roles, seat_roles
from league.config.matchmaking import BranchingConfig
from league.lab.credit.accuracy import batch_gradient
from league.lab.credit.matches import BatchPlan, PlayedBatch, TablePlayer, requests_of
from league.population.matchmaking.branching import BRANCHING_RULES, choose, fork_requests, prefix_of
from league.theory.exact.exploitability import exact_form, uniform_table
from league.theory.exact.turn_values import turn_values
from league.training.evidence.branched import _after_fork, entropies_of
from league.training.evidence.turn_positions import locate
from learners.advantages.forks import FORKABLE, share_among_forks
from learners.trajectories import return_scale, to_trajectories
from roles.replies import format_reply

GAMES = ("kuhn_poker", "tiny_hanabi", "tic_tac_toe", "hex(board_size=3)", "repeated_kuhn_poker(hands=2)")


class Clumsy:
    """Plays at random, and one reply in four is none."""

    def sample(self, requests):
        return [
            Reply("none of it" if one.rng.random() < 0.25 else format_reply(one.role, one.rng.choice(one.legal)))
            for one in requests
        ]


def played(game, requests, roles, engine=None):
    """Return the episodes of requests that one engine plays."""
    engine = engine or Clumsy()
    return play(requests, roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game)


def first_matches(game, count, seats):
    ones = (True,) * seats
    return [MatchRequest(i, game, 7 * i, 1000 + i, ("main",) * seats, ones) for i in range(count)]


@given(
    game=st.sampled_from(GAMES),
    retries=st.integers(0, 2),
    matches=st.integers(1, 6),
    width=st.integers(1, 3),
    spare=st.integers(0, 120),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_forks_never_cost_more_than_the_budget_and_repeat_nothing(game, retries, matches, width, spare, data):
    spec = make_game(game).spec
    roles = seat_roles(RolesConfig(reply="free", on_illegal="retry", retries=retries), spec)
    assert most_retries(roles) == retries
    episodes = played(game, first_matches(game, matches, spec.seats), roles)
    spent = sum(len(episode.turns) for episode in episodes)
    scores = [[data.draw(st.sampled_from([0.0, 0.5, 1.0])) for _ in episode.turns] for episode in episodes]
    points = choose(episodes, scores, spent + spare, width, spec.max_turns, retries)
    forks = played(game, fork_requests(points, width, 3, 100), roles)
    assert spent + sum(len(fork.turns) for fork in forks) <= spent + spare
    assert len({point.episode.request.index for point in points}) == len(points)  # one point a match
    for number, fork in enumerate(forks):
        episode, turn = points[number // width]
        assert fork.request.prefix == prefix_of(points[number // width])
        assert fork.request.fork == (episode.request.index, turn)
        assert fork.request.deal_seed == episode.request.deal_seed
        if turn < len(episode.turns) and fork.turns:
            assert fork.turns[0].observation == episode.turns[turn].observation
    dearest = max((scores[p.episode.request.index][p.turn] for p in points), default=0.0)
    assert not points or scores[points[0].episode.request.index][points[0].turn] == dearest


def test_the_planted_uncertain_turn_is_branched_at():
    """In every match of tic-tac-toe the policy is uncertain at its third turn alone."""
    spec = make_game("tic_tac_toe").spec
    roles = seat_roles(RolesConfig(reply="free", on_illegal="retry"), spec)
    episodes = played("tic_tac_toe", first_matches("tic_tac_toe", 8, 2), roles)
    planted = {episode.turns[2].observation for episode in episodes}
    scores = BRANCHING_RULES["entropy"].make(
        episodes, lambda turns: [1.5 if t.observation in planted else 0.1 for t in turns], BranchingConfig()
    )
    spare = 2 * 9 * (1 + most_retries(roles))
    points = choose(episodes, scores, sum(len(e.turns) for e in episodes) + spare, 1, 9, most_retries(roles))
    assert len(points) >= 2
    assert all(point.episode.turns[point.turn].observation in planted for point in points[:2])


def test_the_value_spread_is_that_of_the_returns_after_what_was_seen():
    roles = seat_roles(RolesConfig(), make_game("kuhn_poker").spec)
    episodes = play(
        requests_of("kuhn_poker", roles, BatchPlan(64, 1, 1), 0),
        roles_of=lambda _: roles,
        engine_of=lambda _: TablePlayer(uniform_table("kuhn_poker")),
        make_game=make_game,
    )
    scores = BRANCHING_RULES["value_spread"].make(episodes, None, BranchingConfig())
    seen = episodes[0].turns[0].observation
    expected = pstdev([e.returns[0] for e in episodes[1:] if e.turns[0].observation == seen])
    assert scores[0][0] == pytest.approx(expected)
    assert scores[0][0] > 0.0


def test_a_matchs_own_return_does_not_decide_where_it_is_branched():
    """Else what chose its branch point would be credited there, and the gradient would be biased."""
    roles = seat_roles(RolesConfig(), make_game("kuhn_poker").spec)
    episodes = play(
        requests_of("kuhn_poker", roles, BatchPlan(64, 1, 1), 0),
        roles_of=lambda _: roles,
        engine_of=lambda _: TablePlayer(uniform_table("kuhn_poker")),
        make_game=make_game,
    )
    lucky = [episodes[0]._replace(returns=(9.0, -9.0)), *episodes[1:]]
    before, after = (
        BRANCHING_RULES["value_spread"].make(matches, None, BranchingConfig()) for matches in (episodes, lucky)
    )
    assert before[0] == after[0]
    assert before != after, "it tells something of other matches"
    alone = BRANCHING_RULES["value_spread"].make(episodes[:1], None, BranchingConfig())
    assert alone == [[0.0] * len(episodes[0].turns)]


def test_the_credit_of_a_family_is_the_number_worked_by_hand():
    """A match of three turns that lost 1; of its second turn two forks, that won 1 and 3."""
    origin = trajectory((0.0, 0.0, -1.0), match=4, order=(0, 2, 4))
    forks = [trajectory((0.0, total), match=m, order=(0, 2), fork=(4, 2)) for m, total in ((8, 1.0), (9, 3.0))]
    other = trajectory((1.0,), match=5, order=(0,))
    batch = [origin, other, *forks]
    plain = credit("reinforce", batch).advantages
    shared = share_among_forks(batch, plain)
    assert shared[0] == pytest.approx([1.0, -1 / 3, -1 / 3])
    assert shared[1] == [1.0]
    assert shared[2] == pytest.approx([1 / 3, 1 / 3])
    assert shared[3] == pytest.approx([1.0, 1.0])
    assert share_among_forks([other], [[1.0]]) == [[1.0]]


def test_forks_keep_the_gradient_of_a_game_that_pays_in_the_middle():
    """Every match of two hands is branched at its third turn; the gradient comes nearer to the exact one."""
    game, matches = "repeated_kuhn_poker(hands=2)", 500
    table, form, spec = uniform_table(game), exact_form(game), make_game(game).spec
    roles, engine = seat_roles(RolesConfig(), spec), TablePlayer(table)
    whole = played(game, requests_of(game, roles, BatchPlan(matches, 1, 1), 0), roles, engine)
    scores = [[float(k == 2) for k in range(len(episode.turns))] for episode in whole]
    points = choose(whole, scores, 10**6, 2, spec.max_turns, 0)
    forks = played(game, fork_requests(points, 2, 0, 10_000), roles, engine)
    forks = [_after_fork(fork, *points[number // 2]) for number, fork in enumerate(forks)]
    assert len(forks) > matches
    exact = turn_values(form, [table.probabilities[key] for key in form.keys])
    cosines = []
    for episodes in (whole, whole + forks):
        trajectories = to_trajectories(episodes, lambda _: roles, {game: return_scale(spec)})
        where = locate(episodes, trajectories, {key: index for index, key in enumerate(form.keys)})
        states = np.array([place.state for place in where])
        actions = exact.first[states] + np.array([place.action for place in where])
        batch = PlayedBatch(matches, trajectories, states, actions)
        for rule in FORKABLE:
            given = share_among_forks(trajectories, credit(rule, trajectories).advantages)
            gradient = batch_gradient(exact, batch, np.array([a for row in given for a in row]))
            cosines.append(gradient @ exact.gradient / np.linalg.norm(gradient) / np.linalg.norm(exact.gradient))
    plain, branched = np.array(cosines).reshape(2, -1)
    assert (branched > np.maximum(plain, 0.8)).all()


def test_a_seat_that_had_no_turn_before_the_fork_keeps_what_it_was_paid_there():
    """A question costs both seats a sixth, the answerer before its first turn: only who had a turn was paid there."""
    game = "twenty_questions(colours=2,kinds=2,questions=3,answerer=1,form=1)"
    roles = seat_roles(RolesConfig(), make_game(game).spec)
    [whole] = [
        episode
        for seed in range(40)
        for episode in played(game, first_matches(game, 1, 2), roles, Asks(seed))
        if len(episode.turns) == 7
    ][:1]
    for k in range(1, 7):
        asked = (k + 1) // 2
        points = choose([whole], [[float(n == k) for n in range(7)]], 100, 1, 7, 0)
        assert [point.turn for point in points] == [k]
        [fork] = played(game, fork_requests(points, 1, 5, 9), roles, Asks(1))
        fork = _after_fork(fork, *points[0])
        for seat in (0, 1):
            paid = [one.reward for one in fork.turns if one.seat == seat]
            before = -asked / 6 if seat == 0 or k > 1 else 0.0
            assert not paid or sum(paid) == pytest.approx(fork.returns[seat] - before)


class Asks:
    """Draws legal replies, questions before names, and not those that the matches' own generators would draw."""

    def __init__(self, seed):
        self._rng = random.Random(seed)

    def sample(self, requests):
        return [
            Reply(format_reply(one.role, self._rng.choice([a for a in one.legal if a[:5] != "it is"] or one.legal)))
            for one in requests
        ]


def test_a_free_replys_entropy_is_its_mean_surprisal():
    """Of two tokens, 1/2 and 1/8 likely: (1 + 3) / 2 bits; a scripted player's turn has none."""
    trace = TokenTrace("main", (0,), (1, 2), (log(1 / 2), log(1 / 8)), None)
    turns = [turn(trace=trace), turn(), turn(trace=trace._replace(reply_ids=(1,), logprobs=(log(1 / 8),)))]
    assert entropies_of({})(turns) == pytest.approx([2 * log(2), 0.0, 3 * log(2)])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["branching.replies=100"], "branching.replies = 100 is less than the 6144 replies"),
        (["credit.rule=grpo", "matchmaking.group_size=4"], "credit rule 'grpo' of kuhn_poker/first does not allow"),
        (["branching.rule=luck"], "entropy"),
    ],
)
def test_what_cannot_be_branched_is_refused_with_what_to_set(overrides, message):
    with pytest.raises(UsageError, match=message):
        run_roles(load("pocket", ["branching.rule=entropy", *overrides]))
