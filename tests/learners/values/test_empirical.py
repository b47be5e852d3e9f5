"""The advantage of every reply in the game as matches have shown it: exact once they have shown all of it."""

import json
from collections import Counter
from math import exp
from statistics import fmean
from types import SimpleNamespace

import pytest
from support.matches.kuhn import engine_with, kuhn_matches, kuhn_pocket, played, roles_for

from league.config.load import load
from league.training.checkpoints.learner_checkpoint import LearningState
from league.training.evidence.counterfactuals import PromptKey, reply_probabilities
from league.training.evidence.exact_advantages import exact_advantages
from league.training.evidence.source import BeforeLearning
from league.training.evidence.turn_values import credited_by_memory, estimated
from learners.trajectories import Evidence, to_trajectories
from learners.values import ESTIMATORS

KUHN = "kuhn_poker"
EMPIRICAL = ESTIMATORS["empirical"]
CREDIT = "games={kuhn_poker={}}", "credit.rule=contribution", "values.estimator=empirical", "values.empirical.least=1"


@pytest.fixture(scope="module")
def kuhn():
    """Return Kuhn poker's thirty courses, each once, under uneven play: episodes, trajectories, engine, roles."""
    engine, roles = engine_with(main=kuhn_pocket(sharpness=3.0)), roles_for()
    episodes = played(engine, kuhn_matches(1200, ("main", "main")), 64, roles)
    courses = {tuple((turn.observation, turn.reply) for turn in episode.turns): episode for episode in episodes}
    assert len(courses) == 30
    episodes = list(courses.values())
    return episodes, to_trajectories(episodes, lambda _: roles, {KUHN: 2.0}), engine, roles


def asking(engine):
    lm = engine.model_of("main")

    def probabilities(states):
        keys = [PromptKey(one.prompt, one.mask, one.temperature) for one in states]
        found = reply_probabilities(lm, keys)
        return [found[key] for key in keys]

    return probabilities


def credits_of(trajectories, engine, state=None, **settings):
    """Return the credits of all replies by trajectory, and the state as it is read back from a file."""
    chosen = EMPIRICAL.settings(**{"least": 1} | settings)
    columns, after = EMPIRICAL.make(trajectories, state or {}, asking(engine), chosen)
    return columns["reply_credits"], json.loads(json.dumps(after))


def test_a_game_that_was_seen_whole_has_its_exact_advantages(kuhn):
    """Every course once: what follows a reply then has chance's frequencies, though play was uneven."""
    episodes, trajectories, engine, roles = kuhn
    found, _ = credits_of(trajectories, engine)
    expected = exact_advantages(KUHN, roles, engine, episodes, trajectories, 2.0)
    for rows, turns in zip(found, expected, strict=True):
        assert len(rows) == len(turns.reply_credits)
        for row, right in zip(rows, turns.reply_credits, strict=True):
            assert row == pytest.approx(right, abs=1e-6)


def test_matches_of_an_earlier_iteration_count_alike(kuhn):
    """Half of the courses at once and the others later: the later ones are valued by all thirty."""
    _, trajectories, engine, _ = kuhn
    whole, _ = credits_of(trajectories, engine)
    half = len(trajectories) // 2
    partly, state = credits_of(trajectories[:half], engine)
    assert partly != whole[:half]
    later, _ = credits_of(trajectories[half:], engine, state)
    for rows, right in zip(later, whole[half:], strict=True):
        for row, expected in zip(rows, right, strict=True):
            assert row == pytest.approx(expected, abs=1e-12)


def test_a_policy_that_plays_otherwise_now_is_credited_as_it_plays_now(kuhn):
    """Courses that one policy played are valued under another's probabilities, without importance weights."""
    episodes, trajectories, _, roles = kuhn
    other = engine_with(main=kuhn_pocket(seed=4, sharpness=3.0))
    found, _ = credits_of(trajectories, other)
    expected = exact_advantages(KUHN, roles, other, episodes, trajectories, 2.0)
    for rows, turns in zip(found, expected, strict=True):
        for row, right in zip(rows, turns.reply_credits, strict=True):
            assert row == pytest.approx(right, abs=1e-6)


def test_a_state_that_was_met_too_seldom_has_the_return_less_its_seats_value(kuhn):
    """Where no policy is read, that value is the mean return."""
    trajectories, engine = kuhn[1][:14], kuhn[2]
    mean = fmean(one.match_return for one in trajectories if one.seat == 0)
    assert mean != 0.0
    found, _ = credits_of(trajectories, engine, least=1000)
    for one, rows in zip(trajectories, found, strict=True):
        for turn, row in zip(one.turns, rows, strict=True):
            drawn = turn.trace.mask.index(turn.reply)
            assert row[1 - drawn] == 0.0
            gain = one.match_return - (mean, -mean)[one.seat]
            assert row[drawn] == pytest.approx(gain * exp(sum(turn.trace.logprobs)))


def test_the_order_of_trajectories_changes_nothing(kuhn):
    """The second seat before the first, matches mixed up, and one of the seats of some matches at the very end."""
    _, trajectories, engine, _ = kuhn
    right, _ = credits_of(trajectories, engine)
    order = sorted(range(len(trajectories)), key=lambda i: (trajectories[i].seat < i % 3, -i))
    found, _ = credits_of([trajectories[i] for i in order], engine)
    for place, i in enumerate(order):
        for row, expected in zip(found[place], right[i], strict=True):
            assert row == pytest.approx(expected, abs=1e-12)


def test_a_state_is_met_in_all_of_its_histories(kuhn):
    """The second player's state after a pass is met in six matches, three for each card of the first."""
    _, trajectories, engine, _ = kuhn
    found, _ = credits_of(trajectories, engine, least=6)
    rows = [
        (trajectory.seat, turn.trace.prompt_ids, all(own))  # else only the reply that was drawn has one
        for trajectory, rows in zip(trajectories, found, strict=True)
        for turn, own in zip(trajectory.turns, rows, strict=True)
    ]
    met = Counter(row[:2] for row in rows)
    assert set(met.values()) == {4, 6, 10}
    for seat, prompt, is_valued in rows:
        assert is_valued == (met[seat, prompt] >= 6)


def test_matches_with_other_players_are_another_game(kuhn):
    """The first seat's matches with one who has just bet, and with one who has not, are valued apart."""
    _, trajectories, engine, _ = kuhn
    pairs = list(zip(trajectories[::2], trajectories[1::2], strict=True))
    bold, shy = (
        [
            first._replace(players=("main", name))
            for first, second in pairs
            if (second.turns[0].reply == "bet") == (name == "bold")
        ]
        for name in ("bold", "shy")
    )
    apart = [row for matches in (bold, shy) for row in credits_of(matches, engine)[0]]
    found, state = credits_of([*bold, *shy], engine)
    assert len(state) == 2
    for rows, expected in zip(found, apart, strict=True):
        for row, right in zip(rows, expected, strict=True):
            assert row == pytest.approx(right, abs=1e-12)
    met, _ = credits_of([one._replace(players=("main", "both")) for one in (*bold, *shy)], engine)
    assert met != found


def test_a_bet_of_one_in_a_million_counts_as_one_in_a_million(kuhn):
    """Nobody bets: a jack that passes loses one chip, and one that bets wins one, so the bet is worth two more."""
    _, trajectories, _, _ = kuhn
    chip = max(one.match_return for one in trajectories) / 2
    columns, _ = EMPIRICAL.make(
        trajectories, {}, lambda states: [(1 - 1e-6, 1e-6)] * len(states), EMPIRICAL.settings(least=1)
    )
    jacks = [
        rows[0]
        for one, rows in zip(trajectories, columns["reply_credits"], strict=True)
        if one.seat == 0 and "J" in one.turns[0].observation
    ]
    assert len(jacks) == 10
    for row in jacks:
        assert row == pytest.approx((-2e-6 * chip, 2e-6 * chip), rel=1e-4)


def test_each_state_is_read_by_its_own_policy_and_a_turn_has_the_advantage_of_what_it_drew(kuhn):
    """The second seat's policy has other weights, and comes first among the policies."""
    episodes, trajectories, _, roles = kuhn
    lms = {"other": kuhn_pocket(seed=4, sharpness=3.0), "main": kuhn_pocket(sharpness=3.0)}
    engine, config = engine_with(**lms), load("pocket-returns", CREDIT)
    episodes = [
        one._replace(request=one.request._replace(players=("main", "other")))._replace(
            turns=tuple(turn._replace(player=("main", "other")[turn.seat]) for turn in one.turns)
        )
        for one in episodes
    ]
    trajectories = [one._replace(policy=("main", "other")[one.seat], players=("main", "other")) for one in trajectories]
    state = LearningState({name: SimpleNamespace(name=name, lm=lm, critic=None) for name, lm in lms.items()})
    found = credited_by_memory(config, BeforeLearning(state, trajectories, [Evidence()] * len(trajectories)))
    expected = exact_advantages(KUHN, roles, engine, episodes, trajectories, 2.0)
    evidence = [Evidence(reply_credits=rows) for rows in found]
    drawn = estimated(config, BeforeLearning(state, trajectories, evidence))
    for one, rows, numbers, right in zip(trajectories, found, drawn, expected, strict=True):
        for turn, row, number, of_turn in zip(one.turns, rows, numbers, right.reply_credits, strict=True):
            assert row == pytest.approx(of_turn, abs=1e-6)
            place = turn.trace.mask.index(turn.reply)
            assert number == pytest.approx(of_turn[place] / exp(sum(turn.trace.logprobs)), abs=1e-4)


def test_what_was_met_longest_ago_is_forgotten_but_not_its_returns(kuhn):
    _, trajectories, engine, _ = kuhn
    half = len(trajectories) // 2
    _, state = credits_of(trajectories[:half], engine)
    found, after = credits_of(trajectories[half:], engine, state, turns=1)
    [tree] = after.values()
    assert all(last == tree["clock"] for last in tree["last"])
    assert sum(tree["tried"][:1]) == 30
    [whole] = credits_of(trajectories[half:], engine, state)[1].values()
    assert len(tree["state"]) < len(whole["state"])
    assert [sum(column) for column in zip(*tree["earned"], strict=True)] == pytest.approx(
        [sum(column) for column in zip(*whole["earned"], strict=True)]
    )
    assert all(sum(row) == pytest.approx(0.0, abs=1e-9) for rows in found for row in rows)


def test_probabilities_beside_forced_replies_are_those_alone():
    """A prompt with one legal reply takes a place in the pass."""
    lm = kuhn_pocket(sharpness=3.0)
    forced, free = PromptKey((1, 2, 3, 4), ("pass",), 1.0), PromptKey((1, 2, 3, 4, 5), ("pass", "bet"), 1.0)
    alone, together = reply_probabilities(lm, [free]), reply_probabilities(lm, [forced, free])
    assert together[forced] == (1.0,)
    assert together[free] == pytest.approx(alone[free], abs=1e-6)


def test_histories_of_a_state_weigh_by_how_often_chance_deals_them(kuhn):
    """The queen against two other cards, of which one was dealt twice as often: its advantages count twice."""
    _, trajectories, engine, _ = kuhn
    pairs = list(zip(trajectories[::2], trajectories[1::2], strict=True))
    [card] = {  # it wins and loses when both have bet
        first.turns[0].observation
        for first, _ in pairs
        if {one.match_return for one, _ in pairs if one.turns[0].observation == first.turns[0].observation} >= {1, -1}
    }
    dealt = [pair for pair in pairs if pair[0].turns[0].observation == card]
    passed = "pass"  # after it the other seat's observation differs by its card alone
    others = dict.fromkeys(second.turns[0].observation for first, second in dealt if first.turns[0].reply == passed)
    assert len(others) == 2
    one, other = (
        [pair for pair in dealt if pair[0].turns[0].reply == passed and pair[1].turns[0].observation == seen]
        for seen in others
    )
    again = [tuple(part._replace(match=part.match + 10_000) for part in pair) for pair in one]

    def answer(matches):
        """Return the credits at the first seat's second turn, after pass and bet."""
        flat = [part for pair in matches for part in pair]
        rows, _ = credits_of(flat, engine)
        return {len(t.turns): row[-1] for t, row in zip(flat, rows, strict=True) if t.seat == 0 and len(t.turns) == 2}[
            2
        ]

    alone = [answer(matches) for matches in (one, other)]
    bets = [  # how likely the other seat bets with each card
        next(exp(sum(pair[1].turns[0].trace.logprobs)) for pair in matches if pair[1].turns[0].reply == "bet")
        for matches in (one, other)
    ]
    weights = 2 * bets[0], bets[1]
    expected = [(weights[0] * first + weights[1] * second) / sum(weights) for first, second in zip(*alone, strict=True)]
    assert answer([*one, *again, *other]) == pytest.approx(expected, abs=1e-6)
    assert alone[0] != pytest.approx(alone[1], abs=1e-3)
