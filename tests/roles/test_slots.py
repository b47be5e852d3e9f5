"""Rules that fill slots, one by one, from what a seat saw: who is asked, when, and what is shown."""

import pytest
from support.matches.contexts import WORDS, matches, with_slots

from arena.records import Reply
from arena.samplers.scripted import Random
from games.registry import make_game
from roles.cards import load_roles
from roles.slots import RULES
from roles.slots.rule import Sight, SlotText, filled

PAST = ("one", "two", "three")
GAME = make_game("repeated_kuhn_poker(hands=3)")
GAME.reset(1)


def sight(*written, past=PAST, **fields):
    return Sight(GAME, fields.pop("seat", 1), past, tuple(SlotText(*text) for text in written), **fields)


def rule(name, **settings):
    """Return what a rule with these settings shows, and what it asks to be written from; None: nothing."""
    entry = RULES[name]
    table = entry.settings(**settings)

    def of(seen):
        asked = entry.asks(seen, table) if entry.asks else None
        return entry.make(seen, table), asked and asked.shown

    return of


@pytest.mark.parametrize(("entries", "shown"), [(0, ""), (1, "three"), (2, "two\nthree"), (9, "one\ntwo\nthree")])
def test_a_window_shows_the_latest_entries(entries, shown):
    assert rule("window", entries=entries)(sight()) == (shown, None)


def test_a_summary_is_asked_for_when_too_much_has_come_since_the_last_and_never_at_the_end():
    summary = rule("summary", entries=2)
    assert summary(sight()) == ("one\ntwo\nthree", "one\ntwo\nthree")
    assert summary(sight(past=PAST[:2])) == ("one\ntwo", None)
    assert summary(sight(("old", 1, 1))) == ("old\ntwo\nthree", None)
    assert summary(sight(("older", 0, 1), ("old", 0, 1))) == ("old\none\ntwo\nthree", "old\none\ntwo\nthree")
    assert summary(sight(over=True)) == ("one\ntwo\nthree", None)


def test_notes_are_those_that_the_match_was_given_and_new_ones_see_them_and_the_match():
    notes = rule("notes")
    assert notes(sight(given="bluffs")) == ("bluffs", None)
    assert notes(sight(given="bluffs", over=True)) == ("bluffs", f"bluffs\n{GAME.observe(1)}")
    assert notes(sight(over=True)) == ("", GAME.observe(1))
    assert GAME.observe(1) != GAME.observe(0)


def test_a_plan_is_written_once_by_another_role_unless_one_was_given():
    plan = rule("plan", by="second")
    assert plan(sight()) == ("", GAME.observe(1))
    assert plan(sight(("bet", 0, 1), given="pass")) == ('"bet"', None)
    assert plan(sight(given="pass")) == ('"pass"', None)
    assert plan(sight(over=True)) == ("", None)
    assert rule("plan")(sight()) == ("", None)


@pytest.mark.parametrize("written", [(), (("early", 0, 2),), (("late", 0, 2), ("latest", 0, 3))])
def test_a_reflection_is_asked_for_in_each_attempt_but_the_first(written):
    reflection = rule("reflection")
    game = make_game("retried(sums,attempts=4,pays=0)")
    game.reset(0)
    for attempt in (1, 2, 3):
        seen = Sight(game, 0, PAST, tuple(SlotText(*text) for text in written))
        latest = written[-1][2] if written else 1
        shown, asked = reflection(seen)
        assert shown == (written[-1][0] if written else "")
        assert asked == ("one\ntwo\nthree" if attempt > latest else None)
        assert reflection(seen._replace(over=True))[1] is None
        while game.attempt == attempt:
            game.apply(game.scripts()["poor"](None))


def test_a_line_stays_if_one_of_its_slots_is_filled():
    prompt = "{notes} / {plan}\n{earlier}\n{observation} {hint}\nLegal: {legal}"
    assert filled(prompt, "seen", {"plan": "bet"}) == " / bet\nseen "
    assert filled(prompt, "seen", {"earlier": "long ago"}) == "long ago\nseen "
    assert filled(prompt, "seen", {}) == "seen "


def test_what_is_given_is_for_the_seat_that_it_names():
    roles = load_roles(GAME.spec)
    roles = tuple(with_slots(role, "{notes}\n{observation}\nLegal: {legal}", notes={"rule": "notes"}) for role in roles)
    given = ((1, "notes", "for the second"), (0, "notes", "for the first"))
    [episode] = matches(GAME.spec.name, [Random(), Random()], roles, given=given)
    for turn in episode.turns:
        assert ("for the second" in turn.observation, "for the first" in turn.observation) == (
            turn.seat == 1,
            turn.seat == 0,
        )


def test_a_text_that_is_none_of_the_choices_fills_nothing():
    class Wanders(Random):
        def sample(self, requests):
            return [Reply("purple") if r.probe else super(Wanders, self).sample([r])[0] for r in requests]

    role = load_roles(make_game("recall").spec)[0]
    role = with_slots(role, earlier={"rule": "summary", "entries": 2, "choices": WORDS})
    [episode] = matches("recall", [Wanders()], (role,))
    assert [turn.reply for turn in episode.turns if turn.tool][:1] == ["purple"]
    assert not any("purple" in turn.observation for turn in episode.turns)


def test_each_reflection_belongs_to_the_attempt_that_it_was_written_in():
    """Four attempts of several turns each: one text of a seat before its first turn in each of the last three."""
    spec = make_game("retried(tic_tac_toe,attempts=4,pays=0)").spec
    table = {"rule": "reflection", "choices": ("carry",)}
    prompt = "{notes}\n{observation}\nLegal: {legal}"
    roles = tuple(with_slots(role, prompt, notes=table) for role in load_roles(spec))
    [episode] = matches(spec.name, [Random(), Random()], roles)
    for seat in (0, 1):
        turns = [turn for turn in episode.turns if turn.seat == seat]
        attempts = [turn.observation.split("Attempt ")[-1][0] for turn in turns if not turn.tool]
        assert sorted({*attempts}) == ["1", "2", "3", "4"]
        assert all(attempts.count(attempt) >= 2 for attempt in attempts)
        assert sum(bool(turn.tool) for turn in turns) == 3
