"""The trajectories that a policy gathers over several iterations for its next update, with their credit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from arena.replays import turn_from_record, turn_to_record, with_tuples
from learners.trajectories import Evidence, Trajectory, evidence_from_json, evidence_to_json


@dataclass(slots=True)
class TrajectoryBuffer:
    """A policy's trajectories since its last update. Its weights have not changed since, so all are on-policy."""

    iterations: int = 0
    trajectories: list[Trajectory] = field(default_factory=list)  # [N]
    evidence: list[Evidence] = field(default_factory=list)  # [N]
    advantages: list[Sequence[float]] = field(default_factory=list)  # by trajectory, by turn
    weights: list[float] = field(default_factory=list)  # of each trajectory in the loss  # [N]

    def add(
        self,
        trajectories: Sequence[Trajectory],
        evidence: Sequence[Evidence],
        advantages: Sequence[Sequence[float]],
        weights: Sequence[float],
    ) -> None:
        """Add the trajectories of one iteration."""
        self.iterations += 1
        self.trajectories += trajectories
        self.evidence += evidence
        self.advantages += advantages
        self.weights += weights

    @property
    def tokens(self) -> int:
        """How many tokens the replies have."""
        traces = (turn.trace for trajectory in self.trajectories for turn in trajectory.turns)
        return sum(len(trace.reply_ids) for trace in traces if trace is not None)

    def subsample(self, matches: int) -> TrajectoryBuffer:
        """Return at most ``matches`` matches of each game, taken at even distances.

        Matches of one start stay together, so fewer may be returned to keep groups whole.
        """
        starts: dict[str, dict[int, set[int]]] = {}  # by game and start, the matches
        for trajectory in self.trajectories:
            starts.setdefault(trajectory.game, {}).setdefault(trajectory.deal_seed, set()).add(trajectory.match)
        chosen_starts: set[tuple[str, int]] = set()
        for game, groups in starts.items():
            share = min(1.0, matches / sum(map(len, groups.values())))
            for index, start in enumerate(groups):
                if int((index + 1) * share + 1e-9) > int(index * share + 1e-9):
                    chosen_starts.add((game, start))
        chosen = [
            i
            for i, trajectory in enumerate(self.trajectories)
            if (trajectory.game, trajectory.deal_seed) in chosen_starts
        ]
        return TrajectoryBuffer(
            self.iterations,
            [self.trajectories[i] for i in chosen],
            [self.evidence[i] for i in chosen],
            [self.advantages[i] for i in chosen],
            [self.weights[i] for i in chosen],
        )

    def to_json(self) -> str:
        """Return JSON that ``from_json`` reads back equal, floats included."""
        fields = {
            "iterations": self.iterations,
            "trajectories": [trajectory_to_record(trajectory) for trajectory in self.trajectories],
            "evidence": [evidence_to_json(evidence) for evidence in self.evidence],
            "advantages": self.advantages,
            "weights": self.weights,
        }
        return json.dumps(fields, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> TrajectoryBuffer:
        """Return what ``to_json`` wrote."""
        fields = json.loads(text)
        return cls(
            fields["iterations"],
            [trajectory_from_record(record) for record in fields["trajectories"]],
            [evidence_from_json(record) for record in fields["evidence"]],
            fields["advantages"],
            fields["weights"],
        )


def trajectory_to_record(trajectory: Trajectory) -> dict[str, Any]:
    """Return a trajectory as JSON has it."""
    return {**trajectory._asdict(), "turns": [turn_to_record(turn) for turn in trajectory.turns]}


def trajectory_from_record(record: dict[str, Any]) -> Trajectory:
    """Return what ``trajectory_to_record`` gave."""
    return Trajectory(**{**with_tuples(record), "turns": tuple([turn_from_record(turn) for turn in record["turns"]])})
