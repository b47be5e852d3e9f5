"""The checks of ``league check``: each defect that is planted in a small game is named, and a sound game has none."""

import json
import random
import re
import sys
from dataclasses import replace

import pytest
from support.matches.high_card import HighCard

from games.common import plugins
from games.conformance import check_game, faults
from games.spec import Choices, Utility
from league.cli import main


class PaysBoth(HighCard):
    def returns(self):
        return tuple(map(abs, super().returns()))


class PaysTwice(HighCard):
    def returns(self):
        return tuple(0.5 * value for value in super().returns())

    def rewards(self):
        return HighCard.returns(self)


class Leaks(HighCard):
    def observe(self, seat):
        return f"{super().observe(seat)}. The other card: {self.cards[1 - seat]}"


class SharesItsState(HighCard):
    def apply(self, action):
        if action not in self.actions().labels:
            raise ValueError(f"{action!r} is not legal")
        self.said.append(action)


class Shuffles(HighCard):
    looks = 0

    def actions(self):
        self.looks += 1
        legal = super().actions()
        return Choices(legal.labels[:: (-1) ** self.looks], legal.ids[:: (-1) ** self.looks])


class Forgetful(HighCard):
    deals = random.Random(3)

    def reset(self, _seed):
        self.cards, self.said = self.deals.sample(range(1, 5), 2), []


class Ambiguous(HighCard):
    def actions(self):
        return Choices(("high", "high"), (0, 1)) if self.to_act() is not None else Choices((), ())


class Spaced(HighCard):
    def actions(self):
        return Choices(("low", "high "), (0, 1)) if self.to_act() is not None else Choices((), ())


class Underpays(HighCard):
    spec = replace(HighCard.spec, min_return=-1.0)


class Unstorable(HighCard):
    def __init__(self):
        super().__init__()
        self.score = lambda: 0

    def copy(self):
        return HighCard.copy(self)


class WithoutLists(HighCard):
    legal_ids = None


class ListsOthers(HighCard):
    def legal_actions(self):
        return self.actions().labels[::-1]


class NeverEnds(HighCard):
    def to_act(self):
        return len(self.said) % 2


class Endless(NeverEnds):
    spec = replace(HighCard.spec, max_turns=10**9)


class Raises(HighCard):
    def apply(self, action):
        super().apply(action)
        if self.said == ["low", "high"]:
            raise KeyError("high after low")


class TakesAnything(HighCard):
    def apply(self, action):
        self.said = [*self.said, action]


class HidesNothingItSays(HighCard):
    spec = replace(HighCard.spec, perfect_information=True)


class Draws(HighCard):
    def reset(self, seed):
        random.seed(seed)
        self.cards, self.said = random.sample(range(1, 5), 2), []


class PaysByCards(HighCard):
    """The seats share what lies on the table, which is another sum in every match."""

    spec = replace(HighCard.spec, utility=Utility.CONSTANT_SUM, min_return=0.0, max_return=9.0)

    def returns(self):
        return tuple(map(float, self.cards)) if self.to_act() is None else (0.0, 0.0)


class ViewsLater(HighCard):
    """Once something was said, a copy shows its match until it is moved itself."""

    def copy(self):
        other = super().copy()
        other.shown = self if self.said else None
        return other

    @property
    def said(self):
        return self.heard if self.shown is None else self.shown.said

    @said.setter
    def said(self, words):
        self.heard, self.shown = words, None


class Absentminded(HighCard):
    """One seat speaks three times, and knows its first word and how often it has spoken."""

    spec = replace(HighCard.spec, seats=1, max_turns=3, utility=Utility.GENERAL_SUM, has_chance=False)

    def to_act(self):
        return 0 if len(self.said) < 3 else None

    def observe(self, seat):
        return self.information_state(seat)

    def information_state(self, seat):
        return f"{self.said[:1]} {len(self.said)}"

    def returns(self):
        return (0.0,)

    def undealt(self):
        return type(self)()

    def chance_outcomes(self):
        return ()

    def apply_chance(self, outcome):
        raise ValueError(outcome)


PLANTED = [  # a defect, the check that names it, and what its sentence says
    (PaysBoth, "utility", "returns are not zero-sum, as the spec says"),
    (PaysTwice, "rewards", "rewards sum to"),
    (Leaks, "hidden", "reads more, or may do something else, than its information_state"),
    (SharesItsState, "copies", "a match changes with its copy"),
    (Shuffles, "steady", r"two looks at the same position differ in actions\(\)"),
    (Forgetful, "seeds", "the same seed and actions give another match after a reset"),
    (Ambiguous, "labels", r"labels are not distinct: \(high, high\)"),
    (Spaced, "labels", "the label 'high ' is empty, or has space around it"),
    (Underpays, "bounds", r"a match paid -2 to 2, and not min_return = -1 to max_return = 2"),
    (Unstorable, "stored", "a match cannot be pickled or deep-copied"),
    (WithoutLists, "facts", "it lacks the methods legal_ids of games.spec.ChoiceGame"),
    (ListsOthers, "labels", r"legal_actions\(\) and legal_ids\(\) are .*'high', 'low'.*, and actions\(\) are"),
    (NeverEnds, "ends", "a match takes more than max_turns = 2 turns"),
    (Endless, "ends", "a match is not over after 20001 turns"),
    (
        Raises,
        "ends",
        r"after 'low', 'high': it raises KeyError: 'high after low' \(test_conformance.py, line \d+, in a",
    ),
    (TakesAnything, "refusals", "is not refused with ValueError"),
    (HidesNothingItSays, "hidden", "perfect_information = True, and what seat 0 knows does not tell"),
    (PaysByCards, "utility", r"returns are not constant-sum, as the spec says: .* sum to \d, others to \d"),
    (ViewsLater, "copies", "a copy made at turn 1 changes with its match"),
    (Absentminded, "tree", "the information state of seat 0, .* forgets what it saw or did"),
    (Draws, "seeds", "it draws from, or seeds, the process's own generators"),
]


def test_a_sound_game_passes():
    assert faults(HighCard, range(200), outward=False) == []


@pytest.mark.parametrize(("game", "name", "sentence"), PLANTED, ids=[planted[0].__name__ for planted in PLANTED])
def test_a_planted_defect_is_named_with_where_it_was_seen(game, name, sentence):
    results = {result.name: result for result in check_game(game, range(60), outward=False)}
    found = results[name]
    assert found.state == "fail"
    assert re.search(sentence, found.sentence)
    if name not in ("hidden", "facts", "tree"):
        assert found.sentence.startswith("Seed ")
    if name in ("facts", "ends"):  # nothing else is said of a game that does not play
        assert {result.state for key, result in results.items() if key not in ("facts", "ends")} == {"skip"}


def test_a_seat_that_sees_everything_by_its_information_state_too_is_remarked_on():
    class Informed(Leaks):
        def information_state(self, seat):
            return f"{self.cards} {self.said}"

    [hidden] = [result for result in check_game(Informed, range(200), outward=False) if result.name == "hidden"]
    assert "what seat 0 and 1 knew always told what the others read: is that meant?" in hidden.sentence


MODULE = """
from dataclasses import replace
import league
from support.matches.high_card import HighCard

class ShortCard(HighCard):
    spec = replace(HighCard.spec, name="short_card", min_return=-1.0)

class BrokenCard(HighCard):
    def __init__(self):
        raise RuntimeError("no cards left")

league.register_game("high_card", HighCard)
league.register_game("short_card", ShortCard)
league.register_game("broken_card", BrokenCard)
"""


@pytest.fixture
def checked(monkeypatch, tmp_path, capsys):
    """Return a function that checks a game of a plugin in the current folder: the status, and what is printed."""
    monkeypatch.setattr(plugins, "_registered", {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_cards.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "my_cards", raising=False)

    def check(*words):
        status = main(["check", *words, "--plugin", "my_cards"])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    yield check
    sys.modules.pop("my_cards", None)


def test_the_command_passes_a_game_of_ones_own(checked):
    status, out, _ = checked("high_card")
    assert status == 0
    assert re.search(r"^pass +copies +a copy has the position of its match", out, re.MULTILINE)
    assert "high_card passes 14 checks, over 200 random matches (seeds from 0)." in out


def test_the_command_names_what_fails_and_its_status_is_1(checked):
    status, out, _ = checked("short_card", "--matches", "30", "--seed", "5")
    assert status == 1
    assert re.search(r"^FAIL +bounds .*\n +Seed \d+, after 'high', 'high': a match paid -2 to 2", out, re.MULTILINE)
    assert "short_card fails 1 of 14 checks, over 30 random matches (seeds from 5)." in out
    status, out, _ = checked("short_card", "--matches", "30", "--json")
    told = json.loads(out)
    assert (status, told["passed"]) == (1, False)
    assert [check["name"] for check in told["checks"] if check["state"] == "fail"] == ["bounds"]


def test_a_game_that_cannot_be_made_fails_and_a_wrong_name_is_refused(checked):
    status, out, _ = checked("broken_card")
    assert status == 1
    assert re.search(r"It raises RuntimeError: no cards left \(my_cards.py, line \d+, in __init__\)", out)
    status, _, err = checked("hihg_card")
    assert status == 2
    assert "There is no game named 'hihg_card'" in err
