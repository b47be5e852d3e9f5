"""Games that are played in several rounds: what is dealt, what is paid, what is told, against the game inside."""

import random

import pytest
from support.matches.contexts import with_slots

from arena.contexts import Contexts
from arena.records import MatchRequest
from games.common.errors import NotEnumerable, UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from roles.cards import load_roles

TALK = "simple_negotiation(goods=2,turns=4,form=1)"


def played(name, seed, act):
    """Play a match by a function of game and seat; return it and, by round, the actions and what they paid."""
    game = make_game(name)
    game.reset(seed)
    rounds = {}
    while (seat := game.to_act()) is not None:
        number, action = game.attempt, act(game, seat)
        game.apply(action)
        rounds.setdefault(number, []).append((action, game.rewards()))
    return game, rounds


def drawn(seed):
    rng = random.Random(seed)
    return lambda game, _: rng.choice(game.actions().labels)


@pytest.mark.parametrize("inner", [TALK, "kuhn_poker", "bargaining"])
@pytest.mark.parametrize("seed", [0, 7, 12])
def test_a_round_is_the_game_inside_with_a_deal_of_its_own_and_the_match_pays_their_sum(inner, seed):
    game, rounds = played(f"repeated({inner},rounds=4)", seed, drawn(seed))
    assert sorted(rounds) == [1, 2, 3, 4]
    total, deals = [0.0, 0.0], set()
    for number, moves in rounds.items():
        alone = make_game(inner)
        alone.reset(derive_seed(seed, "round", number))
        deals.add(tuple(alone.observe(seat) for seat in (0, 1)))
        for action, paid in moves:
            alone.apply(action)
            assert paid == pytest.approx(alone.rewards())
        assert alone.to_act() is None
        total = [before + now for before, now in zip(total, alone.returns(), strict=True)]
    assert len(deals) > 1
    assert game.returns() == pytest.approx(total)


def test_what_is_played_changes_no_later_deal():
    begun = []
    for play in (drawn(1), drawn(2), lambda game, _: game.actions().labels[-1]):
        game, seen = make_game(f"repeated({TALK})"), {}
        game.reset(5)
        while (seat := game.to_act()) is not None:
            seen.setdefault(game.attempt, [game._inner.values(place) for place in (0, 1)])
            game.apply(play(game, seat))
        begun.append(seen)
    assert begun[0] == begun[1] == begun[2]


@pytest.mark.parametrize(("inner", "low", "high"), [("kuhn_poker", -2, 2), (TALK, -54, 54), ("tiny_hanabi", 0, 10)])
def test_the_bounds_are_those_of_all_rounds(inner, low, high):
    spec = make_game(f"repeated({inner},rounds=7)").spec
    assert (spec.min_return, spec.max_return) == (7 * low, 7 * high)
    assert spec.max_turns == 7 * make_game(inner).spec.max_turns
    assert spec.optimum == (70 if inner == "tiny_hanabi" else None)
    assert spec.utility == make_game(inner).spec.utility


def test_a_seat_is_told_the_earlier_rounds_as_it_saw_them_and_a_window_cuts_them():
    name = f"repeated({TALK},rounds=6)"
    role, other = load_roles(make_game(name).spec)
    slots = {"earlier": {"rule": "window", "entries": 1}}
    roles = (with_slots(role, "{earlier}\n{observation}\nLegal: {legal}", **slots), other)
    game, rng, lengths = make_game(name), random.Random(3), []
    game.reset(4)
    contexts = Contexts(MatchRequest(0, name, 4, 4, ("a", "b"), (True, True)), roles, game)
    while (seat := game.to_act()) is not None:
        past = game.past(seat)
        assert len(past) == game.attempt - 1
        assert game.observe(seat).startswith("\n".join([*past, f"Round {game.attempt} of 6"]))
        for number, entry in enumerate(past, 1):
            alone = make_game(TALK)
            alone.reset(derive_seed(4, "round", number))
            mine, theirs = (
                ", ".join(f"{good} {value}" for good, value in zip(("apple", "pear"), alone.values(place), strict=True))
                for place in (seat, 1 - seat)
            )
            assert mine in entry
            assert theirs == mine or theirs not in entry
        if seat == 0:
            shown = contexts.shown(game, 0)
            assert [f"Round {n}:" in shown for n in range(1, len(past) + 1)] == [*[False] * (len(past) - 1), True][
                : len(past)
            ]
            lengths.append((len(game.observe(0)), len(shown)))
        game.apply(rng.choice(game.actions().labels))
    assert lengths[-1][0] > 2 * lengths[-1][1]  # who sees all has the longer context


def test_who_reads_the_past_plays_the_best_response_to_a_known_type():
    """``poor`` accepts anything, so that asking for all goods for nothing is worth 3 of each at the seat's values.

    The player offers one for one until a reply that it has seen accepts, and from then on asks for everything.
    """
    rounds = 5

    def reads(game, seat):
        if seat == 1:
            return game.scripts()["poor"](random.Random(0))
        greedy = any("second: accept" in entry or ("; paid" in entry and "accept" in entry) for entry in game.past(0))
        return "offer nothing for 3 apples and 3 pears" if greedy else "offer 1 apple for 1 pear"

    for seed in range(10):
        game, _ = played(f"repeated({TALK},rounds={rounds})", seed, reads)
        values = []
        for number in range(1, rounds + 1):
            alone = make_game(TALK)
            alone.reset(derive_seed(seed, "round", number))
            values.append(alone.values(0))
        first = values[0][1] - values[0][0]
        assert game.returns()[0] == first + 3 * sum(sum(pair) for pair in values[1:])


def test_what_cannot_be_repeated_is_refused():
    for rounds in (0, 1, 101):
        with pytest.raises(UsageError, match="rounds is 2 to 100"):
            make_game(f"repeated(kuhn_poker,rounds={rounds})")
    with pytest.raises(UsageError, match="games with tools or submatches cannot be repeated"):
        make_game("repeated(lookup_chain)")
    with pytest.raises(NotEnumerable, match="deals each round anew"):
        make_game("repeated(kuhn_poker)").undealt()
    game, _ = played("repeated(kuhn_poker,rounds=2)", 0, drawn(0))
    with pytest.raises(ValueError, match="the match is over"):
        game.apply("bet")
