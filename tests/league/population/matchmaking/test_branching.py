"""Forks of matches: where they begin, that they never cost more than the budget, and that their credit is exact."""

import random
from collections import Counter
from itertools import product
from math import log
from statistics import pstdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.learning.trajectories import credit, trajectory, turn
from support.source import ROOT

from arena.records import Cast, MatchRequest, Reply, TokenTrace
from arena.samplers.scripted import Random
from arena.scheduler import play
from arena.submatches import middle, positions
from games.common.errors import UsageError
from games.registry import make_game, with_submatches
from league.config import RolesConfig
from league.config.checks.features import most_retries, most_turns
from league.config.load import load, run_roles, seat_roles
from league.config.matchmaking import BranchingConfig
from league.lab.credit.accuracy import batch_gradient
from league.lab.credit.matches import BatchPlan, PlayedBatch, TablePlayer, requests_of
from league.population.matchmaking.branching import (
    BRANCHING_RULES,
    BranchPoint,
    ForkLimits,
    branch_points,
    fork_requests,
)
from league.theory.exact.exploitability import exact_form, uniform_table
from league.theory.exact.turn_values import turn_values
from league.training.evidence.branched import _after_fork, entropies_of
from league.training.evidence.turn_positions import locate
from learners.advantages.forks import FORKABLE, share_among_forks
from learners.trajectories import return_scale, to_trajectories
from roles.cards import load_roles
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


def drawn(scores):
    """Return a rule that scores turns with these, by the index of their match."""
    return lambda episodes, _: [scores[episode.request.index] for episode in episodes]


def scoring(rule, entropies=None):
    return lambda episodes, others: BRANCHING_RULES[rule].make(episodes, others, entropies, BranchingConfig())


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
    budget = matches * spec.max_turns * (1 + retries) + spare
    points = branch_points(episodes, drawn(scores), ForkLimits(budget, width, spec.max_turns, retries))
    forks = played(game, fork_requests(points, width, 3, 100), roles)
    assert spent + sum(len(fork.turns) for fork in forks) <= budget
    assert len({point.episode.request.index for point in points}) == len(points)  # one point a match
    for number, fork in enumerate(forks):
        episode, turn = points[number // width]
        assert fork.request.prefix == middle(*points[number // width]).prefix
        assert fork.request.fork == (episode.request.index, turn)
        assert fork.request.deal_seed == episode.request.deal_seed
        if turn < len(episode.turns) and fork.turns:
            assert fork.turns[0].observation == episode.turns[turn].observation
    assert all(scores[point.episode.request.index][point.turn] > 0.0 for point in points)


def test_the_planted_uncertain_turn_is_branched_at():
    """In every match of tic-tac-toe the policy is uncertain at its third turn alone."""
    spec = make_game("tic_tac_toe").spec
    roles = seat_roles(RolesConfig(reply="free", on_illegal="retry"), spec)
    episodes = played("tic_tac_toe", first_matches("tic_tac_toe", 8, 2), roles)
    planted = {episode.turns[2].observation for episode in episodes}

    def entropies(turns):
        return [1.5 if t.observation in planted else 0.1 for t in turns]

    retries = most_retries(roles)
    limits = ForkLimits((8 + 2) * 9 * (1 + retries), 1, 9, retries)
    points = branch_points(episodes, scoring("entropy", entropies), limits)
    assert len(points) >= 2
    assert all(point.episode.turns[point.turn].observation in planted for point in points)


def test_the_value_spread_is_that_of_the_returns_after_what_was_seen():
    roles = seat_roles(RolesConfig(), make_game("kuhn_poker").spec)
    episodes = play(
        requests_of("kuhn_poker", roles, BatchPlan(64, 1, 1), 0),
        roles_of=lambda _: roles,
        engine_of=lambda _: TablePlayer(uniform_table("kuhn_poker")),
        make_game=make_game,
    )
    first, *others = episodes
    scores = scoring("value_spread")([first], others)
    seen = first.turns[0].observation
    expected = pstdev([e.returns[0] for e in others if e.turns[0].observation == seen])
    assert scores[0][0] == pytest.approx(expected)
    assert scores[0][0] > 0.0
    assert scoring("value_spread")([first], []) == [[0.0] * len(first.turns)], "nothing is known"


LOTS = ForkLimits(10**6, 2, 100, 0)
LEAVES = 5  # of Kuhn poker with known cards
ALIKE, MIXED = (0, 0, 0, 0), (0, 0, 7, 7)  # deals of four matches: cards 2 and 0; in some of the others 1 and 0
PASSES = 0.3, 0.45  # how likely each seat passes, at all cards


def leaves(deal):
    """Return every course of Kuhn poker with a deal's cards."""
    roles, found = seat_roles(RolesConfig(), make_game("kuhn_poker").spec), {}
    for number in range(60):
        request = MatchRequest(number, "kuhn_poker", deal, number, ("main", "main"), (True, True))
        (episode,) = played("kuhn_poker", [request], roles, TablePlayer(uniform_table("kuhn_poker")))
        found.setdefault(tuple(turn.action for turn in episode.turns), episode)
    assert len(found) == LEAVES
    return [found[moves] for moves in sorted(found)]


def chance(episode, since=0):
    """Return how likely the replies of a match from a turn on are."""
    return float(np.prod([likely(turn.seat, turn.action) for turn in episode.turns[since:]]))


def likely(seat, action):
    return PASSES[seat] if action == "pass" else 1.0 - PASSES[seat]


def gradient_of(family):
    """Return Σ A ∂ log σ of a match and its fork, by seat, observation and action."""
    trajectories = to_trajectories(family, lambda _: kuhn_roles(), {"kuhn_poker": 1.0})
    gradient = Counter()
    given = share_among_forks(trajectories, credit("reinforce", trajectories).advantages)
    for one, advantages in zip(trajectories, given, strict=True):
        for taken, advantage in zip(one.turns, advantages, strict=True):
            for action in taken.legal:
                chosen = float(action == taken.action) - likely(one.seat, action)
                gradient[one.seat, taken.observation, action] += advantage * chosen
    return gradient


def kuhn_roles():
    return seat_roles(RolesConfig(), make_game("kuhn_poker").spec)


def expected_gradient(courses, select):
    """Return the exact expectation over all courses of four matches, and forks of the points that ``select`` gives."""
    known = {}
    total = Counter()
    for numbers in product(range(LEAVES), repeat=len(courses)):
        batch = [
            of_deal[number]._replace(request=of_deal[number].request._replace(index=index))
            for index, (of_deal, number) in enumerate(zip(courses, numbers, strict=True))
        ]
        weight = float(np.prod([chance(episode) for episode in batch]))
        turns = {point.episode.request.index: point.turn for point in select(batch)}
        for index, number in enumerate(numbers):
            case = index, number, turns.get(index)
            if case not in known:
                known[case] = expected_family(courses[index], courses[index][number], turns.get(index))
            for key, value in known[case].items():
                total[key] += weight * value
    return total


def expected_family(courses, origin, turn):
    if turn is None:
        return gradient_of([origin])
    total, prefix = Counter(), middle(origin, turn).prefix
    for course in courses:
        if middle(course, turn).prefix == prefix:
            (request,) = fork_requests([BranchPoint(origin, turn)], 1, 0, 1_000)
            fork = _after_fork(course._replace(request=request, turns=course.turns[turn:]), origin, turn)
            for key, value in gradient_of([origin, fork]).items():
                total[key] += chance(course, turn) * value
    return total


def fixed_entropies(turns):
    return [(0.61, 0.69)[turn.seat] for turn in turns]


@pytest.mark.parametrize(
    ("rule", "deals", "turns"),
    [("value_spread", ALIKE, {0}), ("value_spread", MIXED, {1}), ("entropy", ALIKE, {1}), ("entropy", MIXED, {1})],
)
def test_the_gradient_is_exact_wherever_a_rule_branches(rule, deals, turns):
    """The expectation over all courses of four matches of Kuhn poker and all their forks, with nothing sampled."""
    courses = [leaves(deal) for deal in deals]
    limits, scores = ForkLimits(4 * 3 + 6, 1, 3, 0), scoring(rule, fixed_entropies)
    exact, seen = expected_gradient(courses, lambda _: []), set()

    def select(batch):
        points = branch_points(batch, scores, limits)
        seen.update((point.turn, len(points)) for point in points)
        return points

    branched = expected_gradient(courses, select)
    assert {turn for turn, _ in seen} == turns
    assert len(seen) > 1, "what is forked depends on the matches"
    assert branched == pytest.approx(exact, abs=1e-12)


def test_the_best_turn_of_a_whole_match_is_a_biased_choice():
    """What the test above would find: later turns decide whether an earlier one is forked."""
    courses = [leaves(0)] * 4
    scores = scoring("value_spread")

    def best_turns(batch):
        rows = [scores([one], [other for other in batch if other is not one])[0] for one in batch]
        return [BranchPoint(one, row.index(max(row))) for one, row in zip(batch, rows, strict=True) if max(row) > 0.0]

    exact = expected_gradient(courses, lambda _: [])
    assert max(abs(expected_gradient(courses, best_turns)[key] - exact[key]) for key in exact) > 0.01


@pytest.mark.parametrize("game", GAMES)
@given(seed=st.integers(0, 1000), data=st.data())
@settings(max_examples=15, deadline=None)
def test_what_comes_after_a_turn_does_not_decide_whether_it_is_forked(game, seed, data):
    spec = make_game(game).spec
    roles = seat_roles(RolesConfig(reply="free", on_illegal="retry", retries=1), spec)
    requests = [r._replace(deal_seed=seed, sample_seed=seed + r.index) for r in first_matches(game, 6, spec.seats)]
    episodes = played(game, requests, roles)
    limits = ForkLimits(6 * spec.max_turns * 2 + 3 * spec.max_turns, 1, spec.max_turns, 1)
    match = data.draw(st.integers(0, 5))
    turn = data.draw(st.integers(0, len(episodes[match].turns) - 1))
    (request,) = fork_requests([BranchPoint(episodes[match], turn)], 1, seed, 100)
    (fork,) = played(game, [request], roles)
    changed = [
        one._replace(turns=one.turns[:turn] + fork.turns, returns=fork.returns) if number == match else one
        for number, one in enumerate(episodes)
    ]
    scores = scoring("value_spread")
    before, after = (
        [p.turn for p in branch_points(batch, scores, limits) if p.episode.request.index == match and p.turn <= turn]
        for batch in (episodes, changed)
    )
    assert before == after


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
    points = branch_points(whole, drawn(dict(zip((e.request.index for e in whole), scores, strict=True))), LOTS)
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
        points = [BranchPoint(whole, k)]
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
        run_roles(load("pocket-returns", ["branching.rule=entropy", *overrides]))


@pytest.mark.parametrize("game", ["lookup_chain", "propose_sums(tasks=2)", "repeated_kuhn_poker(hands=3)"])
def test_matches_that_open_others_or_have_texts_written_are_forked_at_every_turn(game):
    """What a seat is paid before its branch point and after it sums to the fork's return, whoever else is paid."""
    names = with_submatches([game])
    roles = {name: load_roles(make_game(name).spec) for name in names}
    if game.startswith("repeated"):
        roles = {game: load_roles(make_game(game).spec, ROOT / "tests" / "data" / "slots")}
    seats = {name: len(roles[name]) for name in names}
    cast = tuple(Cast(name, ("a",) * seats[name], (True,) * seats[name]) for name in names[1:])
    engine = Random()

    def goes(requests):
        return play(requests, roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game)

    players = ("a",) * seats[game], (True,) * seats[game]
    origins = goes([MatchRequest(i, game, i, i, *players, cast=cast) for i in range(8)])
    points = [BranchPoint(origin, turn) for origin in origins for turn in range(len(origin.turns))]
    forks = goes(fork_requests(points, 1, 3, 100))
    most = most_turns(make_game(game).spec, roles[game])
    for point, fork in zip(points, forks, strict=True):
        origin, turn = point
        after = _after_fork(fork, origin, turn)
        assert turn + len(fork.turns) <= most
        *_, position = zip(range(turn + 1), positions(make_game(game), origin), strict=False)
        for seat in range(seats[game]):
            before = position[1].returns()[seat] * any(t.seat == seat for t in origin.turns[:turn])
            rest = sum(t.reward for t in after.turns if t.seat == seat)
            if any(t.seat == seat for t in after.turns):
                assert before + rest == pytest.approx(fork.returns[seat])
    assert any(
        fork.turns[0].reply != point.episode.turns[point.turn].reply for point, fork in zip(points, forks, strict=True)
    )
