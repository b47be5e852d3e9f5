"""A small sound game, to plant defects in."""

import random

from games.spec import Choices, GameSpec, Utility

SPEC = GameSpec(
    name="high_card",
    seats=2,
    num_actions=2,
    max_turns=2,
    min_return=-2.0,
    max_return=2.0,
    utility=Utility.ZERO_SUM,
    perfect_information=False,
    has_chance=True,
)


class HighCard:
    """Two seats with a card from 1 to 4 each say "low" or "high"; the higher card wins 1, or 2 if both said "high"."""

    spec = SPEC

    def __init__(self):
        self.reset(0)

    def reset(self, seed):
        self.cards, self.said = random.Random(seed).sample(range(1, 5), 2), []

    def to_act(self):
        return len(self.said) if len(self.said) < 2 else None

    def actions(self):
        return Choices(("low", "high"), (0, 1)) if self.to_act() is not None else Choices((), ())

    def legal_actions(self):
        return self.actions().labels

    def legal_ids(self):
        return self.actions().ids

    def observe(self, seat):
        return f"Your card: {self.cards[seat]}. Said: {' '.join(self.said) or 'nothing'}"

    def information_state(self, seat):
        return f"{self.cards[seat]} {self.said}"

    def apply(self, action):
        if action not in self.actions().labels:
            raise ValueError(f"{action!r} is not legal")
        self.said = [*self.said, action]

    def rewards(self):
        return self.returns()

    def returns(self):
        if self.to_act() is not None:
            return (0.0, 0.0)
        won = (2.0 if self.said == ["high", "high"] else 1.0) * (1 if self.cards[0] > self.cards[1] else -1)
        return (won, -won)

    def copy(self):
        other = type(self)()
        other.cards, other.said = self.cards, self.said
        return other
