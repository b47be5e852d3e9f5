"""How far turns moved the next seat's choice, measured from the answers to them and to alternatives."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from arena.records import Turn
from league.config.context import RunContext
from league.training.evidence.counterfactuals import prompt_key, reply_probabilities
from league.training.evidence.source import AfterPlay, Column, Source
from league.training.evidence.turn_values import asked_of_play
from learners.influence import Distribution, influence
from learners.trajectories import Evidence, Trajectory
from learners.values.alternatives import ANSWERS

if TYPE_CHECKING:
    from learners.update.policy import Policy

Answers = tuple[Turn | None, ...]  # to the message and then to each alternative; None where nobody answers directly


def influences(policies: Mapping[str, Policy], answers: Sequence[Sequence[Answers]]) -> list[tuple[float | None, ...]]:
    """Return the influence (nats) of each turn, ``answers`` [N][K][M]; None for answers without known chances.

    They are known for ``choice`` replies of the policies, which have the weights that answered.
    """
    probabilities: dict[tuple[str, object], tuple[float, ...]] = {}
    turns = [turn for rows in answers for row in rows for turn in row if turn is not None]
    for name, policy in policies.items():
        keys = [prompt_key(turn) for turn in turns if turn.player == name and _is_choice(turn)]
        of_policy = reply_probabilities(policy.lm, keys) if keys else {}
        probabilities |= {(name, key): row for key, row in of_policy.items()}

    def distribution(turn: Turn | None) -> Distribution | None:
        if turn is None or turn.player not in policies or not _is_choice(turn):
            return None
        replies: list[Hashable] = [(turn.seat, label) for label in turn.trace.mask]  # type: ignore[union-attr]
        return dict(zip(replies, probabilities[turn.player, prompt_key(turn)], strict=True))

    return [tuple([_of_turn([distribution(turn) for turn in row]) for row in rows]) for rows in answers]


def _is_choice(turn: Turn) -> bool:
    return turn.trace is not None and turn.trace.mask is not None


def _of_turn(answers: Sequence[Distribution | None]) -> float | None:
    """Return the influence of a message, whose answer comes first, among the alternatives that were answered."""
    answered = [answer for answer in answers if answer is not None]
    if answers[0] is None or len(answered) < 2:
        return None
    return influence([1.0] * len(answered), answered)


def influence_of_turns(_context: RunContext, play: AfterPlay) -> Column:
    """Return how far each turn moved the next seat's choice, where alternatives to it were played."""
    answers = play.estimates.column(ANSWERS, play.trajectories)
    moved = iter(influences(play.policies, [rows for rows in answers if rows is not None]))
    return [None if rows is None else next(moved) for rows in answers]


SOURCE = Source(influence_of_turns, asked=asked_of_play)


def influence_metrics(trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]) -> dict[str, float]:
    """Return ``GAME/influence/ROLE``, the mean influence of a role's turns in nats, where it was measured."""
    by_name: dict[str, list[float]] = {}
    for trajectory, trajectory_evidence in zip(trajectories, evidence, strict=True):
        influences_K = [moved for moved in trajectory_evidence.influence or () if moved is not None]
        if influences_K:
            by_name.setdefault(f"{trajectory.game}/influence/{trajectory.role}", []).extend(influences_K)
    return {name: fmean(numbers) for name, numbers in by_name.items()}
