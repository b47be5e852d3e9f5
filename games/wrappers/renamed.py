"""``renamed(GAME)``: the same game with other words for its actions, wherever they are named.

The words are drawn by ``seed``, one for each action id, so that equal actions have equal words in the whole game. In
observations and role cards the labels are replaced where they stand as whole words; labels that are mere numbers are
left in cards, where a number may mean something else.
"""

from __future__ import annotations

import random
import re
from functools import cache
from typing import TYPE_CHECKING

from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from games.spec import ChoiceGame, Game

WORDS = (
    *("amber", "birch", "cedar", "dune", "ember", "fern", "grove", "heath", "iris", "jade", "kelp", "lark", "maple"),
    *("nettle", "oak", "pearl", "quartz", "reed", "slate", "thyme", "umber", "vine", "willow", "yarrow", "zinc"),
)
MATCHES = 200  # of random play, in which the labels of a game are met


class Renamed(Wrapper):
    """One match with renamed actions."""

    title = "renamed"
    keeps = frozenset({Kept.IDS, Kept.RETURNS, Kept.INFORMATION})

    def __init__(self, inner: Game, seed: int = 0) -> None:
        """Rename by ``seed``."""
        super().__init__(inner, seed=seed)
        self._words = _words(self.spec.num_actions, seed)
        ids = _known_labels(self._inner)
        self._in_observations = _Replacing({label: self._words[number] for label, number in ids})
        self._in_cards = _Replacing({label: self._words[number] for label, number in ids if not label.isdecimal()})

    def legal_actions(self) -> tuple[str, ...]:
        """Return the words of the legal actions, in the order of their ids."""
        return tuple(self._words[number] for number in self.legal_ids())

    def observe(self, seat: int) -> str:
        """Return what the seat is shown, its actions renamed behind the labels of its lines."""
        lines = super().observe(seat).split("\n")
        return "\n".join(self._renamed_line(line) for line in lines)

    def reword(self, text: str) -> str:
        """Return the text with its actions renamed."""
        return self._in_cards(text)

    def apply(self, action: str) -> None:
        """Play the action of a word. Raises ValueError for any other string."""
        words = self.legal_actions()
        if action not in words:
            legal = f"legal: {', '.join(words)}" if words else "the match is over"
            raise ValueError(f"{action!r} is not a legal action here; {legal}")
        super().apply(self._inner.legal_actions()[words.index(action)])

    def _renamed_line(self, line: str) -> str:
        label, colon, rest = line.partition(":")
        return label + colon + self._in_observations(rest) if colon else self._in_observations(line)


@cache
def _words(count: int, seed: int) -> tuple[str, ...]:
    """Return a word for each action id."""
    words = [f"{WORDS[n % len(WORDS)]}{n // len(WORDS) + 1 if n >= len(WORDS) else ''}" for n in range(count)]
    random.Random(seed).shuffle(words)
    return tuple(words)


_LABELS: dict[str, tuple[tuple[str, int], ...]] = {}  # by game


def _known_labels(game: ChoiceGame) -> tuple[tuple[str, int], ...]:
    """Return the labels that random play of a game meets, with their action ids."""
    name = game.spec.name
    if name not in _LABELS:
        match, rng, labels = game.copy(), random.Random(name), dict[str, int]()
        for _ in range(MATCHES):
            match.reset(rng.getrandbits(32))
            while match.to_act() is not None:
                legal = match.legal_actions()
                labels.update(zip(legal, match.legal_ids(), strict=True))
                match.apply(rng.choice(legal))
        _LABELS[name] = tuple(labels.items())
    return _LABELS[name]


class _Replacing:
    """Replaces whole words by others, the longest first."""

    def __init__(self, words: dict[str, str]) -> None:
        self._words = words
        either = "|".join(map(re.escape, sorted(words, key=lambda word: (-len(word), word))))
        self._pattern = re.compile(rf"(?<!\w)(?:{either})(?!\w)") if words else None

    def __call__(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._words[match.group()], text)
