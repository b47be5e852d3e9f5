"""A team in which it is known who matters: a guide who is read, a chatterer who is not, and a guesser.

The guide sees a number from 0 to 3 and says one; the chatterer says a word that nobody is shown; the guesser is shown
what the guide said, and guesses. All earn 1 for the right number. Whoever draws in the place of the guide or of the
guesser is right once in four times, whoever draws in the chatterer's changes nothing: what the team loses is exactly
¾, 0 and ¾. Alone, one player is shown the number and guesses it.
"""

import random

from games.spec import Choices, GameSpec, Utility

NUMBERS = ("0", "1", "2", "3")
GUIDE, CHATTERER, GUESSER = range(3)


class PlantedTeam:
    """One match."""

    spec = GameSpec("planted_team", 3, 4, 3, 0.0, 1.0, Utility.IDENTICAL, False, True, alone="planted_alone")

    def __init__(self):
        self.reset(0)

    def reset(self, seed):
        self.number = random.Random(seed).choice(NUMBERS)
        self.said = ()

    def to_act(self):
        return len(self.said) if len(self.said) < self.spec.seats else None

    def actions(self):
        return Choices(self.legal_actions(), self.legal_ids())

    def legal_actions(self):
        return () if self.to_act() is None else NUMBERS

    def legal_ids(self):
        return tuple(range(len(self.legal_actions())))

    def observe(self, seat):
        return {GUIDE: self.number, CHATTERER: "?"}.get(seat, "".join(self.said[:1]))

    def information_state(self, seat):
        return f"{seat} {self.observe(seat)} {self.said[seat : seat + 1]}"

    def apply(self, action):
        if action not in self.legal_actions():
            raise ValueError(action)
        self.said = (*self.said, action)

    def rewards(self):
        return self.returns()

    def returns(self):
        over = self.to_act() is None
        return (float(over and self.said[-1] == self.number),) * self.spec.seats

    def copy(self):
        other = type(self)()
        other.number, other.said = self.number, self.said
        return other

    def scripts(self):
        """``optimal`` says what it sees; ``blind`` always 0, as anybody may."""
        seen = {GUIDE: self.number, CHATTERER: "0", GUESSER: "".join(self.said[:1])}
        return {"optimal": lambda _rng: seen[len(self.said)], "blind": lambda _rng: "0"}


class PlantedAlone(PlantedTeam):
    """The same number, shown to one player who guesses it."""

    spec = GameSpec("planted_alone", 1, 4, 1, 0.0, 1.0, Utility.IDENTICAL, False, True)
