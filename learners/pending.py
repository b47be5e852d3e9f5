"""What a policy has gathered for its next update: the trajectories of several iterations, with their advantages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from arena.replays import tuples, turn_of, turn_record
from learners.trajectories import Trajectory


@dataclass(slots=True)
class Pending:
    """A policy's turns since its last update. Its weights have not changed since, so all are its own."""

    iterations: int = 0
    trajectories: list[Trajectory] = field(default_factory=list)
    advantages: list[Sequence[float]] = field(default_factory=list)  # by trajectory, by turn

    def add(self, trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]]) -> None:
        """Add one iteration's."""
        self.iterations += 1
        self.trajectories += trajectories
        self.advantages += advantages

    def spread(self, matches: int) -> Pending:
        """Return at most ``matches`` matches of each game, spread evenly over what was gathered.

        Matches of one start stay together, so the last ones may be left out to keep groups whole.
        """
        starts: dict[str, dict[int, set[int]]] = {}  # by game and start, the matches
        for one in self.trajectories:
            starts.setdefault(one.game, {}).setdefault(one.deal_seed, set()).add(one.match)
        kept: set[tuple[str, int]] = set()
        for game, groups in starts.items():
            share = min(1.0, matches / sum(map(len, groups.values())))
            for number, start in enumerate(groups):
                if int((number + 1) * share + 1e-9) > int(number * share + 1e-9):
                    kept.add((game, start))
        chosen = [i for i, one in enumerate(self.trajectories) if (one.game, one.deal_seed) in kept]
        return Pending(self.iterations, [self.trajectories[i] for i in chosen], [self.advantages[i] for i in chosen])

    def to_json(self) -> str:
        """Return JSON that ``from_json`` reads back equal, floats included."""
        records = [{**t._asdict(), "turns": [turn_record(turn) for turn in t.turns]} for t in self.trajectories]
        fields = {"iterations": self.iterations, "trajectories": records, "advantages": self.advantages}
        return json.dumps(fields, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Pending:
        """Return what ``to_json`` wrote."""
        fields = json.loads(text)
        return cls(fields["iterations"], [_trajectory(one) for one in fields["trajectories"]], fields["advantages"])


def _trajectory(record: dict[str, Any]) -> Trajectory:
    return Trajectory(**{**tuples(record), "turns": tuple([turn_of(turn) for turn in record["turns"]])})
