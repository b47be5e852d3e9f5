"""Arithmetic games: what seats see, what matches pay, and how often optimal and poor teams are right."""

import itertools
import random
from collections import Counter

import pytest

from arena.records import EndReason, MatchRequest, Reply
from arena.samplers.scripted import Random, Script
from arena.scheduler import play
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from roles.cards import load_roles, with_overrides

SIZES = ["", "(terms=3)", "(most=5)", "(terms=4,most=9)"]


def played(name, script, seeds=range(300)):
    """Return the returns of one match a seed."""
    totals = []
    for seed in seeds:
        game = make_game(name)
        game.reset(seed)
        while game.to_act() is not None:
            game.apply(game.scripts()[script](random.Random(0)))
        totals.append(game.returns())
    return totals


def after(name, replies, seed=0):
    game = make_game(name)
    game.reset(seed)
    for action in replies:
        game.apply(action)
    return game


@pytest.mark.parametrize("size", SIZES)
def test_the_optimal_relay_is_always_right_and_the_poor_one_rarely(size):
    assert set(played(f"relay_arithmetic{size}", "optimal")) == {(1.0,) * 3}
    assert sum(total for total, *_ in played(f"relay_arithmetic{size}", "poor")) / 300 < 0.25


def test_without_critique_nobody_is_right_more_often_than_one_in_three():
    """The generator sees one of two terms; the other is 0, 1 or 2 alike. All 9 sums are drawn."""
    sums = Counter(after("relay_arithmetic", [], seed).observe(0) for seed in range(3000))
    assert sums.keys() == {f"{term} + ?" for term in range(3)}
    for first in range(3):
        games = [after("relay_arithmetic", [], seed) for seed in range(3000)]
        totals = [sum(game.sum) for game in games if game.observe(0) == f"{first} + ?"]
        assert max(Counter(totals).values()) / len(totals) == pytest.approx(1 / 3, abs=0.05)


def test_all_pairs_of_a_pioneers_and_an_observers_views_make_the_observer_right():
    totals = played("pair_arithmetic", "optimal", range(900))
    assert {second for _, second in totals} == {1.0}
    assert sum(first for first, _ in totals) / 900 == pytest.approx(1 / 3, abs=0.05)


@pytest.mark.parametrize(
    ("errors", "returns"),
    [((0, 0), (1.0, 0.0)), ((0, 1), (1.0, 0.0)), ((1, 0), (0.0, 1.0)), ((1, 1), (0.5, 0.5)), ((1, 2), (0.5, 0.5))],
)
def test_the_game_judges_by_the_truth(errors, returns):
    """``errors`` are those of the solver and of the evaluator."""
    total = sum(after("judged_arithmetic", []).sum)
    answer, verdict = ((total + error) % 5 for error in errors)
    assert after("judged_arithmetic", [str(answer), f"It is {verdict}"]).returns() == returns


@pytest.mark.parametrize(("score", "returns"), [("1", (0.0, 1.0, 0.0)), ("2", (0.5, 0.5, 0.0)), ("3", (1.0, 0.0, 0.0))])
def test_a_seated_judge_pays_solver_and_evaluator_by_his_score(score, returns):
    assert after("judged_arithmetic(judge=1)", ["0", "It is 0", score]).returns() == returns
    assert [total[:2] for total in played("judged_arithmetic(judge=1)", "optimal", range(9))] == [(1.0, 0.0)] * 9


@pytest.mark.parametrize(("errors", "returns"), [((0, 0), (1.0, 1.0)), ((0, 1), (1.0, 0.0)), ((1, 0), (0.0, 1.0))])
def test_each_may_be_paid_for_being_right_himself(errors, returns):
    name = "judged_arithmetic(score=0)"
    total = sum(after(name, []).sum)
    answer, verdict = ((total + error) % 5 for error in errors)
    assert after(name, [str(answer), f"It is {verdict}"]).returns() == returns


@pytest.mark.parametrize("errors", [*itertools.product((0, 1), repeat=2)])
def test_the_truth_is_paid_beside_the_score_to_the_turn_of_whom_it_is_about(errors):
    """By name, with the match's return as it is without it; a poor judge says 1 to everything."""
    name = "judged_arithmetic(judge=1,right=1)"
    total = sum(after(name, []).sum)
    answer, verdict = ((total + error) % 5 for error in errors)
    game = after(name, [str(answer), f"It is {verdict}"])
    assert game.named_rewards() == {}
    game.apply("1")
    true_score = "3" if not errors[0] else "1" if not errors[1] else "2"
    right = (float(not errors[0]), float(not errors[1]), float(true_score == "1"))
    assert game.named_rewards() == {"right": right}
    assert game.returns() == after("judged_arithmetic(judge=1)", [str(answer), f"It is {verdict}", "1"]).returns()


def test_a_record_has_what_was_paid_by_name_at_the_turn_before_it():
    name = "judged_arithmetic(right=1)"
    request = MatchRequest(0, name, 1, 1, ("optimal", "optimal"), (False,) * 2)
    (episode,) = play(
        [request],
        roles_of=lambda _: load_roles(make_game(name).spec),
        engine_of=lambda _: Script("optimal"),
        make_game=make_game,
    )
    assert [turn.named for turn in episode.turns] == [(("right", 1.0),)] * 2
    assert episode.returns == (1.0, 0.0)


class NoScore:
    """Replies with a text that is no score."""

    def sample(self, requests):
        return [Reply("hm") for _ in requests]


def test_a_judge_whose_reply_is_no_score_is_paid_minus_one():
    name = "judged_arithmetic(judge=1)"
    roles = load_roles(make_game(name).spec)
    roles = (*roles[:2], with_overrides(roles[2], reply="free", on_illegal="forfeit"))
    request = MatchRequest(0, name, 1, 1, ("poor", "poor", "judge"), (False,) * 3)
    engines = {"poor": Script("poor"), "judge": NoScore()}
    (episode,) = play(
        [request], roles_of=lambda _: roles, engine_of=engines.__getitem__, make_game=make_game, in_flight=1
    )
    assert episode.end is EndReason.FORFEIT
    assert episode.returns[2] == -1.0


def test_seats_see_their_terms_and_the_replies_before_them():
    game = after("relay_arithmetic(terms=3)", ["4", "1 too big"])
    first, second, last = game.sum
    assert [game.observe(seat) for seat in range(3)] == [
        f"{first} + {second} + ?",
        f"{first} + {second} + {last}\n4",
        f"{first} + {second} + ?\n4\n1 too big",
    ]
    pair = after("pair_arithmetic", ["3"])
    assert [pair.observe(seat) for seat in range(2)] == [f"{pair.sum[0]} + ?", f"? + {pair.sum[1]}\n3"]


@pytest.mark.parametrize(
    "name",
    [
        "relay_arithmetic(terms=1)",
        "pair_arithmetic(most=0)",
        "judged_arithmetic(judge=2)",
        "judged_arithmetic(score=2)",
        "judged_arithmetic(right=2)",
    ],
)
def test_impossible_sizes_are_refused(name):
    with pytest.raises(UsageError, match="There is no game"):
        make_game(name)


def test_matches_whose_branches_begin_alike_begin_alike():
    """Random players: equal first seeds, equal first replies; another seed for a turn leaves those before it alone."""
    name = "relay_arithmetic(most=9)"
    branches = list(itertools.product(range(6), repeat=3))
    requests = [
        MatchRequest(
            i,
            name,
            7,
            i,
            ("random",) * 3,
            (True,) * 3,
            branch=tuple(derive_seed(0, "node", *path[: k + 1]) for k in range(3)),
        )
        for i, path in enumerate(branches)
    ]
    roles = load_roles(make_game(name).spec)
    episodes = play(requests, roles_of=lambda _: roles, engine_of=lambda _: Random(), make_game=make_game, in_flight=16)
    replies = {path: [turn.action for turn in e.turns] for path, e in zip(branches, episodes, strict=True)}
    for first, second in itertools.combinations(branches, 2):
        shared = next((k for k in range(3) if first[k] != second[k]), 3)
        assert replies[first][:shared] == replies[second][:shared]
    assert len({actions[0] for actions in replies.values()}) > 2
