"""Predictors of the other player: what they learn from, what they are tried on, and what they must get right."""

import numpy as np
import pytest

from arena.records import EndReason, Episode, MatchRequest, Turn
from league.lab.opponents.predictors import accuracy, by_majority, by_probe, by_table, split, train_probe
from league.lab.opponents.questions import AskedTurn, Question, asked_in


def turn(seat, action, **other):
    legal = ("pass", "bet") if not other.get("form") else ()
    return Turn(seat, f"role_{seat}", "player", f"seen by {seat}", legal, action or "?", action, 0.0, None, **other)


def asked_of(turns, seat):
    episode = Episode(
        MatchRequest(0, "g", 0, 0, ("a", "b"), (False, False)), tuple(turns), (0.0, 0.0), EndReason.FINISHED
    )
    found = list(asked_in(episode, seat, 4, "bob"))
    return {question: [one for kind, one in found if kind is question] for question in Question}


def test_each_turn_asks_who_the_other_is_and_what_it_does_next():
    found = asked_of([turn(0, "pass"), turn(1, "bet"), turn(0, "bet")], 0)
    assert found[Question.TYPE] == [AskedTurn(4, 0, (0, "seen by 0"), "bob"), AskedTurn(4, 1, (0, "seen by 0"), "bob")]
    assert found[Question.ACTION] == [AskedTurn(4, 0, (0, "seen by 0"), "bet")]  # nothing follows its second turn
    other = asked_of([turn(0, "pass"), turn(1, "bet"), turn(0, "bet")], 1)
    assert [one.answer for one in other[Question.ACTION]] == ["bet"]


def test_illegal_replies_calls_of_tools_and_words_are_no_actions():
    turns = [turn(0, None), turn(0, "pass"), turn(1, None), turn(1, "look()", tool="look"), turn(1, "bet")]
    found = asked_of(turns, 0)
    assert len(found[Question.TYPE]) == 1
    assert [one.answer for one in found[Question.ACTION]] == ["bet"]
    assert asked_of([turn(0, "pass"), turn(1, "any words", form="words")], 0)[Question.ACTION] == []


def examples(shares, number, rng, seat=0):
    """Return questions whose answer depends on what is seen by ``shares``: the probability of "a" by what is seen."""
    seen = rng.integers(0, len(shares), number)
    answers = np.where(rng.random(number) < np.asarray(shares)[seen], "a", "b")
    return [
        AskedTurn(deal, int(deal % 2), (seat, str(what)), str(answer))
        for deal, (what, answer) in enumerate(zip(seen, answers, strict=True))
    ]


def test_whole_deals_are_held_out():
    asked = [AskedTurn(deal, 0, (0, ""), "a") for deal in (0, 1, 2, 2, 3, 5, 5)]
    learned, tried = split(asked)
    assert {one.deal for one in learned} == {0, 1, 3}
    assert [one.deal for one in tried] == [2, 2, 5, 5]


def test_a_table_is_as_good_as_what_is_seen_allows_and_so_is_a_probe_of_it():
    """Seen alone, the likeliest answer is right with 0.9, 0.8, 0.6, 0.7 in four equal cases: 0.75; chance with 0.6."""
    shares, rng = [0.9, 0.2, 0.6, 0.7], np.random.default_rng(0)
    learned, tried = split(examples(shares, 6000, rng))
    states = {(0, str(what)): np.eye(4)[what] for what in range(4)}
    probe = train_probe(learned, states)
    for answers in (by_table(learned, tried), by_probe(probe, tried, states)):
        found = accuracy(answers, tried).overall
        assert found.low < 0.75 < found.high
        assert found.high - found.low < 0.05
    chance = accuracy(by_majority(learned, tried), tried).overall
    assert chance.low < 0.6 < chance.high


def test_a_probe_of_states_that_say_nothing_is_chance():
    shares, rng = [0.9, 0.2], np.random.default_rng(1)
    learned, tried = split(examples(shares, 600, rng))
    states = dict.fromkeys([(0, "0"), (0, "1")], np.ones(3))
    assert by_probe(train_probe(learned, states), tried, states) == by_majority(learned, tried)


def test_what_was_never_seen_is_answered_by_the_most_frequent():
    learned = [AskedTurn(0, 0, (0, "x"), "a"), AskedTurn(0, 0, (0, "y"), "b"), AskedTurn(1, 0, (0, "y"), "b")]
    tried = [AskedTurn(2, 0, (0, name), "a") for name in ("x", "y", "never")]
    assert by_table(learned, tried) == ["a", "b", "b"]


def test_shares_are_told_by_turn_with_intervals_by_deal():
    tried = [AskedTurn(deal, number, (0, ""), "a") for deal in range(4) for number in (0, 1)]
    answers = ["a" if one.turn == 0 else "b" for one in tried]
    found = accuracy(answers, tried)
    assert {number: share.mean for number, share in found.by_turn.items()} == {0: 1.0, 1: 0.0}
    assert found.overall.mean == 0.5
    assert found.by_turn[0].low < 1.0  # four deals that agree do not prove that all do
    assert found.overall.low == pytest.approx(0.5 - (1 - 0.025**0.25) * 0.5)  # every deal is half right: they agree
