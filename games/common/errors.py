"""The error that a user's mistake raises, and the sentence that suggests the nearest valid names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

MOST_OFFERED = 4  # of the nearest names


class UsageError(ValueError):
    """A user's mistake, described in full sentences: what was given, what was expected, what to do.

    The command line prints the message alone, without a traceback, and exits with 2.
    """


class DamagedFile(UsageError):
    """A file of ours that does not hold what was written into it: ``what`` is wrong, and ``remedy`` is what to do."""

    def __init__(self, path: Path, what: str, remedy: str = "") -> None:
        super().__init__(f"{path} is damaged ({what}).{' ' + remedy if remedy else ''}")
        self.path, self.what, self.remedy = path, what, remedy


class NotEnumerable(UsageError):
    """A game's positions cannot be enumerated: too many, behind hidden chance, or not listed by its rules."""


def unknown_name(kind: str, name: str, valid: Iterable[str], hint: str = "") -> UsageError:
    """Return the error for a name that does not exist, with the nearest names that do.

    ``kind`` is the noun of what was looked up ("game", "preset"); ``hint`` is a closing sentence.
    """
    names = sorted(set(valid))
    near = difflib.get_close_matches(name, names, n=MOST_OFFERED, cutoff=0.5)
    if near:
        offer = f"Did you mean {' or '.join(near)}?"
    elif len(names) <= 12:
        offer = f"Valid names: {', '.join(names)}." if names else f"There is no {kind} to choose from."
    else:
        offer = f"There are {len(names)} of them, for example {', '.join(names[:5])}."
    return UsageError(f"There is no {kind} named {name!r}. {offer}{' ' + hint if hint else ''}")
