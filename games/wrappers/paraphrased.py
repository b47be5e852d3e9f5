"""``paraphrased(GAME)``: the same rules and observations in other words, drawn by ``seed``.

Phrases of role cards and the labels before the colons of observations are replaced by others that mean the same.
Numbers, cards and actions stay letter for letter.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from games.spec import Game

LINES: dict[str, tuple[str, ...]] = {  # by label of an observation's line
    "Your card": ("You hold", "In your hand"),
    "Moves": ("Played so far", "What was played"),
    "Round 1": ("First round", "Round one"),
    "Round 2": ("Second round", "Round two"),
    "Board": ("On the table", "Open card"),
    "Your dice": ("You rolled", "Dice you hold"),
    "Bids": ("Bids so far", "What was bid"),
    "Last round": ("The round before", "Before"),
    "You": ("Yours", "What you did"),
    "Other": ("Theirs", "What the other did"),
}
PHRASES: dict[str, tuple[str, ...]] = {  # of role cards
    "You are": ("You play as", "Your part is that of"),
    "each player": ("every player", "each of the players"),
    "the other player": ("your opponent", "the player opposite"),
    "after a": ("following a", "once there was a"),
    "takes the pot": ("wins the pot", "gets all of the pot"),
    "highest": ("best", "strongest"),
    "in the same way": ("likewise", "by the same rule"),
    "is dealt": ("receives", "is given"),
    "nobody": ("no one", "none of them"),
}


class Paraphrased(Wrapper):
    """One match in other words."""

    title = "paraphrased"
    keeps = frozenset({Kept.IDS, Kept.LABELS, Kept.RETURNS, Kept.INFORMATION})

    def __init__(self, inner: Game, seed: int = 0) -> None:
        """Choose the words by ``seed``."""
        super().__init__(inner, seed=seed)
        rng = random.Random(seed)
        self._lines = {label: rng.choice(others) for label, others in LINES.items()}
        self._phrases = {phrase: rng.choice(others) for phrase, others in PHRASES.items()}
        either = "|".join(map(re.escape, self._phrases))
        self._pattern = re.compile(rf"\b(?:{either})\b", re.IGNORECASE)

    def observe(self, seat: int) -> str:
        """Return what the seat is shown, with other labels before the colons."""
        lines = (line.partition(":") for line in super().observe(seat).split("\n"))
        return "\n".join(self._lines.get(label, label) + colon + rest for label, colon, rest in lines)

    def reword(self, text: str) -> str:
        """Return a card's text in other words."""
        return self._pattern.sub(lambda match: self._phrase(match.group()), text)

    def _phrase(self, phrase: str) -> str:
        found = next(words for known, words in self._phrases.items() if known.lower() == phrase.lower())
        return found[0].upper() + found[1:] if phrase[0].isupper() else found[0].lower() + found[1:]
