"""A game of both kinds of turn: one seat says a number in its own words, the other chooses one from a list."""

import copy
import random
import re

from games.registry import make_game
from games.spec import Choices, FreeText, GameSpec, Utility

FORM = 'a number from 1 to 3 in your own words, such as "I take 2"'
NUMBERS = ("1", "2", "3")


def one_number(words):
    """Return the one number from 1 to 3 in the words, or None."""
    found = set(re.findall(r"\b[1-3]\b", words))
    return found.pop() if len(found) == 1 else None


def finished(name, script, seed):
    """Return a game that a script has played to its end."""
    game = make_game(name)
    game.reset(seed)
    while game.to_act() is not None:
        game.apply(game.scripts()[script](random.Random(seed)))
    return game


class Mute:
    """Seat 0 says its secret number; seat 1 names what it heard. Both are paid for telling and naming it.

    Nobody has written scripted players for it.
    """

    spec = GameSpec("telling", 2, 0, 2, 0.0, 1.0, Utility.IDENTICAL, False, has_chance=True, free_text=True)

    def __init__(self):
        self.reset(0)

    def reset(self, seed):
        self.secret, self.said = random.Random(seed).choice(NUMBERS), []

    def to_act(self):
        return len(self.said) if len(self.said) < 2 else None

    def actions(self):
        seat = self.to_act()
        if seat == 0:
            return FreeText(200, FORM, one_number)
        return Choices(NUMBERS, (0, 1, 2)) if seat == 1 else Choices((), ())

    def observe(self, seat):
        return f"Yours: {self.secret}" if seat == 0 else f"Said: {''.join(self.said[:1])}"

    def information_state(self, seat):
        return f"{seat} {self.observe(seat)}"

    def apply(self, action):
        if action not in NUMBERS:
            raise ValueError(action)
        self.said = [*self.said, action]

    def rewards(self):
        return self.returns()

    def returns(self):
        right = self.to_act() is None and self.said == [self.secret] * 2
        return (float(right),) * 2

    def copy(self):
        return copy.copy(self)


class Telling(Mute):
    """The same with scripted players."""

    def scripts(self):
        honest = lambda _rng: f"It is {self.secret}." if not self.said else self.said[0]  # noqa: E731
        return {"honest": honest, "random": lambda rng: f"I say {rng.choice(NUMBERS)}!"}
