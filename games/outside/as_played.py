"""The facts about a game from outside that its name and its kept matches tell: to read them, nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Sequence

from games.outside.facts import Facts, with_named
from games.outside.names import read_name
from games.outside.pettingzoo_words import KNOWN
from games.spec import GameSpec, Utility

_OUTSIDE = re.compile(r"(?:^|\()((?:pettingzoo|textarena):[^()]*(?:\([^()]*\))?)")
_SAME = 1e-6


def is_outside(game: str) -> bool:
    """Return whether a name is that of a game of another library, or of one in wrappers."""
    return _OUTSIDE.search(game) is not None


def as_played(game: str, returns: Sequence[Sequence[float]]) -> GameSpec:
    """Return what is known of a game from outside of which matches are kept, by their ``returns`` ([matches][seats]).

    Where the name does not tell the motive, it is the one that fits all matches.
    Raises UsageError for a name that cannot be read, and ValueError for one of no such game or without matches.
    """
    found = _OUTSIDE.search(game)
    if found is None or not returns:
        raise ValueError(f"{game} should be a game from outside, with matches.")
    name = read_name(found[1])
    known = KNOWN.get(name.game)
    facts, _ = with_named(Facts() if known is None else known.facts, name)
    return GameSpec(
        name=game,
        seats=len(returns[0]),
        num_actions=0,
        max_turns=facts.longest,
        min_return=min(float(facts.least), *map(min, returns)),
        max_return=max(float(facts.most), *map(max, returns)),
        utility=facts.motive if known is not None or "motive" in name.parameters else _motive(returns),
        perfect_information=facts.perfect,
        has_chance=not facts.perfect,
        free_text=name.library == "textarena",
    )


def _motive(returns: Sequence[Sequence[float]]) -> Utility:
    if all(abs(sum(seats)) < _SAME for seats in returns):
        return Utility.ZERO_SUM
    return Utility.IDENTICAL if all(max(seats) - min(seats) < _SAME for seats in returns) else Utility.GENERAL_SUM
