"""Facts about another library's game from its name and its stored matches, without importing the library."""

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
    """Return whether a name belongs to another library's game, or to one in wrappers."""
    return _OUTSIDE.search(game) is not None


def as_played(game: str, returns: Sequence[Sequence[float]]) -> GameSpec:
    """Return what is known of a game from outside of which matches are kept, by their ``returns`` ([matches][seats]).

    If the name does not give the motive, it is the one that fits all matches.
    Raises UsageError for a name that cannot be read, and ValueError for one of no such game or without matches.
    """
    match = _OUTSIDE.search(game)
    if match is None or not returns:
        raise ValueError(f"{game} should be a game from outside, with matches.")
    name = read_name(match[1])
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
