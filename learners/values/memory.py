"""An estimator's memory of a role: its newest matches, with equal turns stored once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from learners.keys import join_names, split_names
from learners.trajectories import Trajectory
from learners.values.estimator import State
from learners.values.features import Features, action_features, state_features


class PastTurn(NamedTuple):
    """A turn that is remembered."""

    turn: int  # its number in the table of turns
    reward: float


class PastTrajectory(NamedTuple):
    """A trajectory that is remembered."""

    clock: int  # the call to ``learn`` in which it was new
    start: int  # its deal
    total: float  # its return
    steps: tuple[PastTurn, ...]


class Memory(NamedTuple):
    """The trajectories of one role and policy, oldest first, and their distinct turns."""

    turns: list[tuple[Features, Features]]  # of the observation, and of observation and action
    seen: list[PastTrajectory]
    clock: int

    def to_json(self) -> list[Any]:
        """Return JSON data that ``from_json`` reads back equal."""
        return [self.turns, [[s.clock, s.start, s.total, *s.steps] for s in self.seen], self.clock]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Memory:
        """Return what ``to_json`` wrote."""
        turns = [(tuple(state), tuple(action)) for state, action in data[0]]
        seen = [
            PastTrajectory(clock, start, total, tuple(PastTurn(*s) for s in steps))
            for clock, start, total, *steps in data[1]
        ]
        return cls(turns, seen, data[2])

    def with_new(self, trajectories: Sequence[Trajectory], matches: int) -> Memory:
        """Return the memory with trajectories added, cut to the newest ``matches``, its turns renumbered."""
        numbers: dict[tuple[Features, Features], int] = {}

        def number(pair: tuple[Features, Features]) -> int:
            return numbers.setdefault(pair, len(numbers))

        remaining = self.seen[max(0, len(self.seen) + len(trajectories) - matches) :]
        seen = [
            s._replace(steps=tuple(PastTurn(number(self.turns[i]), reward) for i, reward in s.steps)) for s in remaining
        ]
        for trajectory in trajectories[-matches:]:
            pairs = zip(trajectory.turns, trajectory.rewards, strict=True)
            steps = tuple(PastTurn(number((state_features(t), action_features(t))), reward) for t, reward in pairs)
            seen.append(PastTrajectory(self.clock + 1, trajectory.deal_seed, trajectory.match_return, steps))
        return Memory(list(numbers), seen, self.clock + 1)


EMPTY = Memory([], [], 0)


def remembered(saved: Mapping[str, Any] | None, trajectories: Sequence[Trajectory], matches: int) -> Memory:
    """Return the memory that an estimator saved under "memory", with trajectories added, the newest ``matches``."""
    memory = Memory.from_json(saved["memory"]) if saved else EMPTY
    return memory.with_new(trajectories, matches)


def role_key(trajectory: Trajectory) -> str:
    """Return the key under which a policy's role is remembered."""
    return join_names(trajectory.game, trajectory.role, trajectory.policy)


def by_key(
    trajectories: Sequence[Trajectory], key: Callable[[Trajectory], str] = role_key
) -> Iterator[tuple[str, list[int]]]:
    """Yield each key with the indices of its trajectories."""
    indices: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        indices.setdefault(key(trajectory), []).append(index)
    yield from indices.items()


def forget_policy(state: State, policy: str) -> State:
    """Return the state without a policy's entries; its name comes last in a key."""
    return {key: part for key, part in state.items() if split_names(key)[-1] != policy}


def numbered(keys: Sequence[Hashable]) -> tuple[list[int], dict[Any, int]]:
    """Return the number of each key, from 0 on by first occurrence, and the numbers by key."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys], numbers
