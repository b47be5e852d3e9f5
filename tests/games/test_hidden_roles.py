"""Hidden roles: what a Bayesian makes of claims, who hears what, how votes and nights end, and what no seat is told."""

import copy
import itertools
import pickle
import random
import warnings
from collections import defaultdict
from fractions import Fraction
from functools import cache
from math import comb

import pytest
from pettingzoo.test import api_test, seed_test

from arena.records import MatchRequest
from arena.samplers.scripted import Random, Script
from arena.scheduler import play
from games.common.errors import UsageError
from games.pettingzoo import env
from games.registry import make_game
from games.spec import Choices, FreeText
from games.talk.conversation import PUBLIC, Message
from games.talk.suspicion import Deal, first_claims, posterior, read_claim
from roles.cards import load_roles

WORDS, SIX, SMALL = "hidden_roles", "hidden_roles(seats=6)", "hidden_roles(seats=3,days=1,form=1)"
BIDS = "hidden_roles(rounds=2,bids=1)"
ANN, BOB, CLEO, DAN, EVE = range(5)
NAMES = ("Ann", "Bob", "Cleo", "Dan", "Eve")


def dealt(name, *outcomes):
    """Return a match with these names and clues, drawn in this order."""
    game = make_game(name).undealt()
    for outcome in outcomes:
        game.apply_chance(outcome)
    assert not game.chance_outcomes()
    return game


def finish(game, scripts, seed=0):
    rng = random.Random(seed)
    while (seat := game.to_act()) is not None:
        game.apply(game.scripts()[scripts[seat]](rng))
    return game


# Bob is the wolf; Ann, Cleo, Dan and Eve have clues that name Bob, Bob, Ann and Cleo.
DEAL = ("Bob", "Ann", "Cleo", "Dan", "Eve", "Bob", "Bob", "Ann", "Cleo")
WOLF, VILLAGER = 0, 1  # seats: Bob's, and Ann's


# Bob and Dan are wolves; the villagers' clues name Bob, Bob, Ann and Dan.
TWO_WOLVES = ("Bob", "Dan", "Ann", "Cleo", "Eve", "Finn", "Bob", "Bob", "Ann", "Dan")


def test_wolves_know_each_other_and_take_neither_each_other_nor_themselves():
    game = dealt(SIX, *TWO_WOLVES)
    told = [[line for line in game.observe(seat).splitlines() if line.startswith("With you")] for seat in range(6)]
    assert told == [["With you: Dan, a wolf."], ["With you: Bob, a wolf."], [], [], [], []]
    while isinstance(game.actions(), FreeText) or not game.legal_actions()[0].startswith("take"):
        words = isinstance(game.actions(), FreeText)
        game.apply(game.actions().read("Hm.") if words else "vote nobody")
    assert game.legal_actions() == ("take Ann", "take Cleo", "take Eve", "take Finn")


def test_who_takes_is_a_wolf_that_lives():
    """Bob, the first wolf, is voted out; by night it is Dan's turn."""
    game = dealt(SIX, *TWO_WOLVES)
    while isinstance(game.actions(), FreeText) or not game.legal_actions()[0].startswith("take"):
        words = isinstance(game.actions(), FreeText)
        bob = "vote Bob" if "vote Bob" in game.legal_actions() else "vote nobody"
        game.apply(game.actions().read("Hm.") if words else bob)
    assert game.to_act() == 1
    assert game.legal_actions() == ("take Ann", "take Cleo", "take Eve", "take Finn")


def test_a_golden_match():
    game = dealt(WORDS, *DEAL)
    for words in ("I suspect Bob, my clue says so.", 'No! Ann: "I lie"\nI suspect Cleo', "I suspect Bob", "Hm.", "Hm."):
        game.apply(game.actions().read(words))
    for vote in ("Bob", "Ann", "Bob", "nobody", "Ann"):
        assert isinstance(game.actions(), Choices)
        game.apply(f"vote {vote}")
    assert game.observe(VILLAGER).splitlines() == [
        "You are Ann, a villager. At the table: Ann, Bob, Cleo, Dan, Eve.",
        "Your clue: Bob. Of 100 clues 20 are certain, the rest drawn by lot.",
        'you: "I suspect Bob, my clue says so."',
        'Bob: "No! Ann: \\"I lie\\" I suspect Cleo"',
        'Cleo: "I suspect Bob"',
        'Dan: "Hm."',
        'Eve: "Hm."',
        "Day 1: Ann for Bob, Bob for Ann, Cleo for Bob, Dan for nobody, Eve for Ann. Nobody is out.",
        "Day 2 of 2: the wolves take a villager.",
    ]
    assert game.legal_actions() == ("take Ann", "take Cleo", "take Dan", "take Eve")
    game.apply("take Cleo")
    for _ in range(4):
        game.apply("I suspect Bob")
    for vote in ("Bob", "Ann", "Bob", "nobody"):
        game.apply(f"vote {vote}")
    assert game.observe(WOLF).splitlines()[-2:] == [
        "Day 2: Ann for Bob, Bob for Ann, Dan for Bob, Eve for nobody. Bob is out and was a wolf.",
        "The village wins.",
    ]
    assert game.returns() == (-1.0, 1.0, 1.0, 1.0, 1.0)
    assert game.to_act() is None


@pytest.mark.parametrize(("seed", "places", "clues"), [(7, "10324", "1010"), (8, "14032", "1413")])
def test_a_seed_deals_the_match_that_it_always_dealt(seed, places, clues):
    game = make_game(WORDS)
    game.reset(seed)
    seen = [game.observe(seat) for seat in range(5)]
    for place, text in zip(places, seen, strict=True):
        assert text.startswith(f"You are {NAMES[int(place)]}, ")
    for clue, text in zip(clues, seen[1:], strict=True):
        assert f"Your clue: {NAMES[int(clue)]}." in text


def test_the_posterior_of_worked_claims():
    """With five seats and clues that are right 2 times in 5: h is 2/5, 1/5 for another villager, 1/4 for a lie."""
    alone = posterior(5, 1, 0.4, {ANN: BOB}, {ANN: False})
    assert alone == pytest.approx((0.0, 0.4, 0.2, 0.2, 0.2), abs=1e-9)
    backed = posterior(5, 1, 0.4, {ANN: BOB, CLEO: BOB}, {ANN: False})
    weights = (0.0, 0.4 * 0.4, 0.2 * 0.25, 0.2 * 0.2, 0.2 * 0.2)
    assert backed == pytest.approx([weight / sum(weights) for weight in weights], abs=1e-9)
    assert posterior(5, 1, 0.0, {ANN: BOB}, {ANN: False}) == pytest.approx((0.0, *[0.25] * 4), abs=1e-9)
    assert posterior(6, 2, 0.6, {}, {0: True, 1: False}) == pytest.approx((1.0, 0.0, *[0.25] * 4), abs=1e-9)


@pytest.mark.parametrize(("seats", "sight"), [(3, 40), (4, 50)])
def test_the_scripted_bayesians_posterior_is_that_of_going_through_all_matches(seats, sight):
    """All deals, and all that a wolf may claim, each as likely as it is; villagers claim their clues."""
    name = f"hidden_roles(seats={seats},days=1,sight={sight},form=1)"
    weights, asked = defaultdict(lambda: [0.0] * seats), {}
    deals = [(make_game(name).undealt(), 1.0)]
    while deals:
        match, chance = deals.pop()
        for outcome, probability in match.chance_outcomes():
            child = match.copy()
            child.apply_chance(outcome)
            deals.append((child, chance * probability))
        if match.chance_outcomes():
            continue
        for lie in range(seats - 1):
            end = match.copy()
            while end.to_act() is not None and end.legal_actions()[0].startswith("I suspect"):
                honest = end.to_act() != WOLF
                end.apply(end.scripts()["bayes"](random.Random(0)) if honest else end.legal_actions()[lie])
            wolf = next(place for place in range(seats) if f"You are {NAMES[place]}," in end.observe(WOLF))
            for seat in range(1, seats):
                key = end.information_state(seat)
                weights[key][wolf] += chance / (seats - 1)
                asked[key] = end.posterior(seat)
    assert len(asked) > 20
    for key, by_wolf in weights.items():
        assert asked[key] == pytest.approx([weight / sum(by_wolf) for weight in by_wolf], abs=1e-9)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("I suspect Bob", BOB),
        ("Listen: I suspect Cleo, and you should too.", CLEO),
        ("I suspect Bob. Well, I suspect Dan.", None),
        ("I suspect nobody", None),
        ("I do not suspect Bob", None),
        ("Bobby did it", None),
    ],
)
def test_a_claim_names_one_or_none(text, place):
    assert read_claim(text, NAMES) == place


def test_no_seat_is_told_what_only_others_know():
    """The same claims and votes: with other wolves and other clues elsewhere, a seat's text and key stay the same."""
    others = [
        deal
        for deal in itertools.permutations(NAMES)
        if deal[VILLAGER] == "Ann" and deal[WOLF] in ("Cleo", "Dan", "Eve")
    ][:8]
    seen = set()
    for deal, clue in itertools.product(others, ("Ann", "Bob")):
        clues = [clue if clue != name else "Eve" if name == "Ann" else "Ann" for name in deal[2:]]
        game = dealt("hidden_roles(form=1)", *deal, "Bob", *clues)
        for _ in range(5):
            game.apply("I suspect nobody")
        game.apply("vote Bob")
        seen.add((game.observe(VILLAGER), game.information_state(VILLAGER)))
    assert len(seen) == 1
    mine = {
        (g := dealt(SMALL, "Bob", "Ann", "Cleo", *clues)).observe(WOLF) for clues in (("Bob", "Bob"), ("Cleo", "Ann"))
    }
    assert len(mine) == 1
    assert "Your clue" not in g.observe(WOLF)


def test_only_wolves_hear_each_other_whisper():
    game = make_game(SIX)
    game.reset(4)
    assert game.to_act() in (0, 1)
    game.apply("Let us say that it was the other one.")
    assert "whisper" in game.observe(1)
    assert all(("the other one" in game.observe(seat)) == (seat < 2) for seat in range(6))
    assert 'to the wolves: "Let us' in game.observe(1 - game._dealt.drawn.index(game._talk.messages[0].speaker))
    assert "With you: " in game.observe(0)


def test_with_bids_only_those_speak_that_ask_to():
    game = make_game(BIDS)
    for bid in ("speak", "pass", "pass", "speak", "pass"):
        assert game.legal_actions() == ("speak", "pass")
        game.apply(bid)
    assert isinstance(game.actions(), FreeText)
    first = game.to_act()
    game.apply("Bob did it.")
    assert game.to_act() != first
    game.apply("No.")
    for _ in range(5):
        game.apply("pass")
    assert game.legal_actions()[-1] == "vote nobody"


@pytest.mark.parametrize(
    "name", [WORDS, SIX, BIDS, SMALL, "hidden_roles(days=5,form=1)", "hidden_roles(seats=8,days=3)"]
)
def test_a_match_in_which_votes_put_nobody_out_is_as_long_as_stated(name):
    game, turns = make_game(name), 0
    while game.to_act() is not None:
        legal = game.legal_actions()
        game.apply(next((action for action in legal if action in ("speak", "vote nobody")), legal[0]))
        turns += 1
    assert turns == game.spec.max_turns
    assert game.returns()[0] == 1.0


@pytest.mark.parametrize("name", [WORDS, SIX, BIDS, SMALL])
def test_random_matches_keep_length_and_bounds(name):
    game = make_game(name)
    for seed in range(1000 if name == WORDS else 100):
        rng, turns, twins = random.Random(seed), 0, []
        game.reset(seed)
        while game.to_act() is not None:
            if turns == 4 and seed < 20:
                twins = [game.copy(), copy.deepcopy(game), pickle.loads(pickle.dumps(game))]  # noqa: S301
            assert all(0 <= number < 3 * game.spec.seats + 4 for number in game.legal_ids())
            action = game.scripts()["random"](rng)
            for twin in twins:
                twin.apply(action)
            game.apply(action)
            turns += 1
        assert turns <= game.spec.max_turns
        assert set(game.returns()) == {-1.0, 1.0}
        for twin in twins:
            assert [twin.observe(seat) for seat in range(3)] == [game.observe(seat) for seat in range(3)]


def village_wins(name, wolf, villager, matches=150):
    game, wolves = make_game(name), 2 if name == SIX else 1
    won = 0
    for seed in range(matches):
        game.reset(seed)
        won += finish(game, [wolf] * wolves + [villager] * (game.spec.seats - wolves), seed).returns()[-1] == 1.0
    return won / matches


def test_good_players_win_more_than_poor_ones():
    found = village_wins(WORDS, "good", "good")
    assert 0.5 < found < 0.8
    assert village_wins(WORDS, "poor", "good") > found + 0.1
    assert village_wins(WORDS, "good", "poor") == 0.0
    assert village_wins(WORDS, "bayes", "random", 60) < found - 0.1


def test_matches_of_words_and_choices_go_through_the_referee_with_the_cards_roles():
    roles = load_roles(make_game(WORDS).spec)
    assert [role.name for role in roles] == ["wolf", "villager_1", "villager_2", "villager_3", "villager_4"]
    assert [role.name for role in load_roles(make_game(SIX).spec)][:2] == ["wolf_1", "wolf_2"]
    engines = {"bayes": Script("bayes"), "random": Random()}
    players = ("random", *["bayes"] * 4)
    requests = [MatchRequest(i, WORDS, i, i, players, (False,) * 5) for i in range(10)]
    episodes = play(requests, roles_of=lambda _: roles, engine_of=engines.__getitem__, make_game=make_game)
    turns = [turn for episode in episodes for turn in episode.turns]
    assert {bool(turn.form) for turn in turns} == {True, False}
    assert all(turn.action is not None for turn in turns)


def test_pettingzoos_own_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in (WORDS, SMALL):
            api_test(env(name), num_cycles=10)
            seed_test(lambda name=name: env(name), num_cycles=10)


@pytest.mark.parametrize("name", ["hidden_roles(seats=2)", "hidden_roles(days=9)", "hidden_roles(sight=101)"])
def test_wrong_sizes_are_refused(name):
    with pytest.raises(UsageError, match="seats is 3 to 9"):
        make_game(name)


def test_what_is_not_legal_is_refused():
    game = make_game(SMALL)
    with pytest.raises(ValueError, match="legal: I suspect"):
        game.apply("vote nobody")
    with pytest.raises(ValueError, match="not legal"):
        make_game(WORDS).apply("two\nlines")


def test_with_two_wolves_the_posterior_is_that_of_going_through_all_deals():
    """All seatings of five and all clues, each as likely as the deal draws it; a wolf names any villager alike."""
    leaves, open_deals = [], [(Deal(5, 2, 0.6), 1.0)]
    while open_deals:
        deal, chance = open_deals.pop()
        if deal.complete:
            leaves.append((deal, chance))
        open_deals += [(deal._replace(drawn=(*deal.drawn, place)), chance * p) for place, p in deal.outcomes()]
    assert sum(chance for _, chance in leaves) == pytest.approx(1.0)
    for claims, known in [
        ({ANN: BOB}, {}),
        ({EVE: ANN, BOB: ANN, ANN: EVE}, {}),
        ({DAN: CLEO, CLEO: DAN, BOB: CLEO}, {BOB: False}),
        ({EVE: DAN, DAN: BOB}, {ANN: True, CLEO: False}),
    ]:
        weights = [0.0] * 5
        for deal, chance in leaves:
            if any((place in deal.pack) is not is_wolf for place, is_wolf in known.items()):
                continue
            for place, claim in claims.items():
                if place in deal.pack:
                    chance *= 0.0 if claim in deal.pack else 1 / 3
                else:
                    chance *= deal.clue(deal.drawn[:5].index(place)) == claim
            for place in deal.pack:
                weights[place] += chance
        total = sum(weights) / 2
        assert posterior(5, 2, 0.6, claims, known) == pytest.approx([weight / total for weight in weights], abs=1e-9)


def test_the_first_other_that_a_seat_suspects_is_its_claim():
    """Changing one's mind changes nothing, nor does what says nothing; who names itself has not claimed yet."""
    said = [
        Message(CLEO, PUBLIC, "Hello."),
        Message(ANN, PUBLIC, "I suspect Bob"),
        Message(BOB, PUBLIC, "I suspect Bob, they say!"),
        Message(ANN, PUBLIC, "I suspect Cleo"),
        Message(DAN, PUBLIC, "I suspect Ann. No, I suspect Eve."),
        Message(BOB, PUBLIC, "I suspect Dan"),
        Message(BOB, PUBLIC, "Hm."),
        Message(ANN, PUBLIC, "I suspect nobody"),
    ]
    assert first_claims(said, NAMES) == {CLEO: None, ANN: BOB, BOB: DAN, DAN: None}


@pytest.mark.parametrize("seats", [5, 6, 7, 8, 9])
def test_a_table_of_five_to_nine_is_dealt_played_and_decided(seats):
    """Votes drawn by lot among all living, and nights, end with one side's win; who wins is who is left."""
    name, wolves = ("hidden_roles" if seats == 5 else f"hidden_roles(seats={seats})"), 1 if seats == 5 else 2
    roles = load_roles(make_game(name).spec)
    assert [role.policy for role in roles] == ["wolf"] * wolves + [roles[-1].policy] * (seats - wolves)
    assert roles[-1].policy != "wolf"
    assert all("You are a villager: find the wol" in role.system for role in roles[wolves:])
    for seed in range(12):
        game = make_game(name)
        game.reset(seed)
        told = [game.observe(seat) for seat in range(seats)]
        names = [line.split(",")[0].removeprefix("You are ") for line in told]
        assert len(set(names)) == seats
        assert sum("a wolf. At the table" in line for line in told) == wolves
        finish(game, ["random"] * seats, seed)
        out = [line for line in game.observe(0).splitlines() if " is out and was a " in line]
        caught = sum("was a wolf." in line for line in out)
        assert game.returns() == tuple(
            (1.0 if seat < wolves else -1.0) * (-1.0 if caught == wolves else 1.0) for seat in range(seats)
        )


@pytest.mark.parametrize("seats", [5, 6, 7, 8, 9])
def test_at_each_size_the_posterior_is_that_of_going_through_all_sets_of_wolves(seats):
    """Most name one, who names another, and one names a third; clues are right half of the time: Bayes' rule."""
    wolves, a = (1 if seats == 5 else 2), 0.5
    me, liar, accused = seats - 1, 0, 1
    claims = {place: accused for place in range(seats) if place not in (accused, liar)} | {liar: 2, accused: 3}
    weights = [0.0] * seats
    for pack in itertools.combinations([place for place in range(seats) if place != me], wolves):
        weight = 1.0
        for place, claim in claims.items():
            if place in pack:
                weight *= 0.0 if claim in pack else 1 / (seats - wolves)
            else:
                weight *= a / wolves if claim in pack else (1 - a) / (seats - wolves - 1)
        for place in pack:
            weights[place] += weight
    expected = [wolves * weight / sum(weights) for weight in weights]
    found = posterior(seats, wolves, a, claims, {me: False})
    assert found == pytest.approx(expected, abs=1e-9)
    assert sum(found) == pytest.approx(wolves)
    with pytest.raises(UsageError, match="seats is 3 to 9"):
        make_game("hidden_roles(seats=10)")


TABLES = [5, 6, *[pytest.param(seats, marks=pytest.mark.thorough) for seats in (7, 8, 9)]]


@cache
def somebody_is_out(living):
    """Each of so many names another or nobody by lot: the probability that one has more votes than all else."""
    counts = {(0,) * (living + 1): 1}  # courses of the vote by the votes for each and, last, for nobody
    for voter in range(living):
        further = defaultdict(int)
        for votes, courses in counts.items():
            for named in range(living + 1):
                if named != voter:
                    further[(*votes[:named], votes[named] + 1, *votes[named + 1 :])] += courses
        counts = further
    decided = [n for votes, n in counts.items() if votes.count(max(votes)) == 1 and votes[-1] < max(votes)]
    return Fraction(sum(decided), living**living)


def won_by_lot(wolves, villagers, days):
    """Return how often the village wins where all vote by lot: whoever is out is each of the living as likely."""
    if wolves == 0 or days == 0 or wolves >= villagers:
        return Fraction(wolves == 0)
    living = wolves + villagers
    after = [  # of the wolf, a villager or nobody out by day; by night, if there is one, a villager
        (somebody_is_out(living) * Fraction(wolves, living), wolves - 1, villagers),
        (somebody_is_out(living) * Fraction(villagers, living), wolves, villagers - 1),
        (1 - somebody_is_out(living), wolves, villagers),
    ]
    return sum(p * won_by_lot(w, v - (0 < w < v and days > 1), days - 1) for p, w, v in after)


def played_by(name, wolf, villager, matches):
    """Return matches that are over, in which scripts play."""
    for seed in range(matches):
        game = make_game(name)
        wolves = game._dealt.wolves
        game.reset(seed)
        yield finish(game, [wolf] * wolves + [villager] * (game.spec.seats - wolves), seed + matches)


@pytest.mark.parametrize("seats", TABLES)
def test_votes_by_lot_put_out_and_win_as_often_as_all_courses_of_a_vote_say(seats):
    wolves, matches = 1 if seats == 5 else 2, 400
    size = "" if seats == 5 else f"seats={seats},"
    ends = list(played_by(f"hidden_roles({size}days=3,rounds=0,sight=0,form=1)", "random", "random", matches))
    first_days = []
    for game in ends:
        scenes = [
            line for line in game.observe(0).splitlines() if line.endswith((" is out.", "a wolf.", "a villager."))
        ]
        scenes, living, hunting = [line for line in scenes if line.startswith(("Day", "Night"))], seats, wolves
        first_days.append("Nobody is out." not in scenes[0])
        order = ("Day 1", "Night 1", "Day 2", "Night 2", "Day 3")
        assert [line.partition(":")[0] for line in scenes] == list(order[: len(scenes)])
        for line in scenes:
            assert 0 < 2 * hunting < living, "the match goes on while wolves are fewer than villagers"
            living, hunting = living - ("Nobody" not in line), hunting - line.endswith("a wolf.")
        assert hunting == 0 or 2 * hunting >= living or len(scenes) == len(order)
    assert len(first_days) == matches
    for found, expected in (
        (sum(first_days), somebody_is_out(seats)),
        (sum(bool(game.village_wins()) for game in ends), won_by_lot(wolves, seats - wolves, 3)),
    ):
        assert found / matches == pytest.approx(expected, abs=4 * (expected * (1 - expected) / matches) ** 0.5)


@pytest.mark.parametrize("seats", TABLES)
def test_villagers_with_certain_clues_beside_silent_wolves_win_as_binomials_say(seats):
    """Villagers know both wolves, and each names one by lot: of an even number half may name each, and none is out.

    With one wolf out on the first day the other follows. Where exactly one clue of the v names a wolf that no other
    does, the rest think that its villager may have lied, and all vote for the other wolf.
    """
    wolves, matches = 1 if seats == 5 else 2, 200
    v, expected = seats - wolves, 1.0
    if seats in (6, 8):
        lone, halved = 2 * v / 2**v, comb(v, v // 2) / 2**v
        expected = lone + (1 - lone) * (1 - halved)
        assert expected == {6: 0.8125, 8: (12 + 52 * 44 / 64) / 64}[seats]
    name = f"hidden_roles({'' if seats == 5 else f'seats={seats},'}sight=100,form=1)"
    found = sum(bool(game.village_wins()) for game in played_by(name, "poor", "bayes", matches)) / matches
    assert found == pytest.approx(expected, abs=4 * (expected * (1 - expected) / matches) ** 0.5)
