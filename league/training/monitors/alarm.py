"""The types of the family "alarms".

An alarm judges a reading, such as the history of a policy in a role, by its own settings in the table ``[alarms]``, and
says what is wrong. A ledger takes an iteration's readings, and remembers what later ones need; alarms that judge the
same readings share one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import Field

from games.common.registry import Entry
from games.common.section import Section
from learners.trajectories import Trajectory
from roles.role import Role

Kept = dict[str, Any]  # a ledger's memory: JSON data by ``learners.keys.join_names(…, policy)``, or by policy
Readings = dict[str, Any]  # what is judged, by the subject that an alarm names


class Sensitivity(Section):
    """How easily the league's own alarms ring. Each has a usual limit, which this moves."""

    sensitivity: float = Field(
        1.0, gt=0.0, description="how easily alarms ring: at 2 at half the limit, at 0.5 at twice the limit"
    )

    def most(self, usual: float) -> float:
        """Return the limit above which an alarm rings."""
        return usual / self.sensitivity

    def least(self, usual: float) -> float:
        """Return the limit below which an alarm rings."""
        return usual * self.sensitivity


class Win(NamedTuple):
    """A cycle of a game's players, each of whom beats the next."""

    game: str
    players: tuple[str, ...]
    margin: float  # of the narrowest win, as a share of half the game's range


@dataclass(frozen=True)
class Watched:
    """The data of a finished iteration that alarms read."""

    roles: Mapping[str, Sequence[Role]]  # by game and seat
    settings: Any  # the table [alarms]
    trajectories: Sequence[Trajectory]
    advantages: Sequence[Sequence[float]]  # one number a turn
    metrics: Mapping[str, float]
    wins: Mapping[str, Sequence[Win]]  # of each game whose population was compared
    learns: str = "here"  # where policies learn: "here", in the run's own processes, or "elsewhere"

    def subject(self, game: str, role: str, policy: str) -> str:
        """Return an alarm's name for a policy in a role: only the role if it is bound to the policy."""
        bound = any(card.name == role and card.policy == policy for card in self.roles.get(game, ()))
        return f"{game}/{role}" if bound else f"{game}/{role} ({policy})"

    @cached_property
    def seated(self) -> dict[tuple[str, str, str], list[int]]:
        """The indices of the trajectories, by game, role and policy."""
        indices: dict[tuple[str, str, str], list[int]] = {}
        for index, t in enumerate(self.trajectories):
            indices.setdefault((t.game, t.role, t.policy), []).append(index)
        return indices

    @cached_property
    def by_role(self) -> dict[tuple[str, str, str], list[int]]:
        """The indices of trajectories that have a turn, in the same way."""
        with_turns = {
            names: [i for i in indices if self.trajectories[i].turns] for names, indices in self.seated.items()
        }
        return {names: indices for names, indices in with_turns.items() if indices}


@dataclass(frozen=True, slots=True)
class Ledger:
    """Takes an iteration's readings. ``read`` also returns the ledger's new memory.

    It is saved with the run under ``name``. A policy's part is removed when the policy is reset.
    """

    read: Callable[[Watched, Kept], tuple[Readings, Kept]]
    name: str = ""  # empty: it has no memory


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule(Entry[Callable[[Any, Any], str | None]]):
    """An alarm. ``make`` gets a reading and the settings, and returns what is wrong: "" for nothing.

    None means that it cannot be judged yet. ``settings`` are fields of the table ``[alarms]`` itself: the league's own
    alarms share ``Sensitivity``, and no two others have a field of the same name. ``lasts``: it rings on until it is
    judged again; else it is of one iteration.
    """

    ledger: Ledger
    lasts: bool = True
