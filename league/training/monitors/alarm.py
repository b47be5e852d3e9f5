"""What an alarm is: the types of the family "alarms".

An alarm judges a reading, such as the history of a policy in a role, by its own settings of the table ``[alarms]``, and
says what is wrong. A ledger takes readings of an iteration, and remembers what later ones need of it; alarms that judge
the same readings share one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from games.common.registry import Entry
from learners.trajectories import Trajectory
from roles.role import Role

Kept = dict[str, Any]  # what a ledger remembers: JSON data by ``learners.keys.join_names(…, policy)``, or by policy
Readings = dict[str, Any]  # what there is to be judged, by the subject that an alarm names


class Win(NamedTuple):
    """A cycle of a game's players, each of whom beats the next."""

    game: str
    players: tuple[str, ...]
    margin: float  # of the narrowest win, as a share of half the game's range


@dataclass(frozen=True)
class Watched:
    """What alarms read of a finished iteration."""

    roles: Mapping[str, Sequence[Role]]  # by game and seat
    settings: Any  # the table [alarms]
    trajectories: Sequence[Trajectory]
    advantages: Sequence[Sequence[float]]  # one number a turn
    metrics: Mapping[str, float]
    wins: Mapping[str, Sequence[Win]]  # of each game whose population was compared

    def subject(self, game: str, role: str, policy: str) -> str:
        """Return how an alarm names a policy in a role: by the role alone if it is bound to the policy."""
        own = any(card.name == role and card.policy == policy for card in self.roles.get(game, ()))
        return f"{game}/{role}" if own else f"{game}/{role} ({policy})"

    @cached_property
    def seated(self) -> dict[tuple[str, str, str], list[int]]:
        """The indices of the trajectories, by game, role and policy."""
        found: dict[tuple[str, str, str], list[int]] = {}
        for index, one in enumerate(self.trajectories):
            found.setdefault((one.game, one.role, one.policy), []).append(index)
        return found

    @cached_property
    def by_role(self) -> dict[tuple[str, str, str], list[int]]:
        """The indices of those that had a turn."""
        found = {names: [i for i in indices if self.trajectories[i].turns] for names, indices in self.seated.items()}
        return {names: indices for names, indices in found.items() if indices}


@dataclass(frozen=True, slots=True)
class Ledger:
    """Takes an iteration's readings. ``read`` also returns what it remembers from now on.

    That is saved with the run under ``name``. What it holds of a policy is left out when the policy is reset.
    """

    read: Callable[[Watched, Kept], tuple[Readings, Kept]]
    name: str = ""  # empty: it remembers nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule(Entry[Callable[[Any, Any], str | None]]):
    """An alarm. ``make`` gets a reading and the settings, and returns what is wrong: "" for nothing.

    None says that it cannot be judged yet. ``settings`` are fields of the table ``[alarms]`` itself, so their names are
    taken by no other alarm.
    """

    ledger: Ledger
