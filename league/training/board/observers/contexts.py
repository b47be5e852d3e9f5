"""What contexts cost where cards have slots: how much of a prompt a prefix cache still holds from the seat's last turn.

Where a context only grows, all of the last prompt begins the next one; what a rule rewrites has to be read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from arena.records import Turn
from league.training.board.observer import Metrics, Observer, Record


def context_metrics(record: Record) -> Metrics:
    """Return, by role with slots: mean tokens of a prompt, the share that its last prompt began with, texts a match.

    ``kept`` is over the prompts after a seat's first of a match: tokens that are equal from the beginning on, as a
    share of all. The prompt of a text itself counts like any other.
    """
    metrics: Metrics = {}
    for game, roles in record.context.roles.items():
        for role in roles:
            if not role.slots:
                continue
            turns = [
                [turn for turn in trajectory.turns if turn.trace is not None]
                for trajectory in record.learned.trajectories
                if trajectory.game == game and trajectory.role == role.name
            ]
            if any(turns):
                metrics |= {f"{game}/{role.name}/context/{name}": value for name, value in _measured(turns).items()}
    return metrics


def _measured(matches: list[list[Turn]]) -> Metrics:
    prompts = [[turn.trace.prompt_ids for turn in turns if turn.trace] for turns in matches]
    lengths = [len(prompt) for match in prompts for prompt in match]
    later = [pair for match in prompts for pair in pairwise(match)]
    metrics = {"tokens": sum(lengths) / len(lengths)}
    if later:
        kept = sum(_common(before, prompt) for before, prompt in later)
        metrics["kept"] = kept / sum(len(prompt) for _, prompt in later)
    metrics["texts"] = sum(bool(turn.tool) for turns in matches for turn in turns) / len(matches)
    return metrics


def _common(first: Iterable[int], second: Iterable[int]) -> int:
    """Return how many numbers two lists begin with in common."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


CONTEXTS = Observer(
    context_metrics, description="prompts of cards with slots: their tokens, and how much of them a prefix cache holds"
)
