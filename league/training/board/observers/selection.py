"""What batches learn from: how many of a role's turns the rules of selection leave out, and why."""

from __future__ import annotations

from collections import Counter

from league.training.board.observer import Metrics, Observer, Record
from learners.trajectories import TurnSelection


def selection_metrics(record: Record) -> Metrics:
    """Return by role the share of turns that are left out, in all and by rule, and of those left the share without
    an advantage, which teach nothing either. Nothing without rules of selection.
    """
    rules, learned = record.context.config.selection.rules, record.learned
    turns: Counter[str] = Counter()
    left_out: Counter[tuple[str, str]] = Counter()
    idle: Counter[str] = Counter()
    for trajectory, selection in zip(learned.trajectories, learned.selections, strict=bool(learned.selections)):
        if selection is None:
            continue
        place = f"{trajectory.game}/{{}}/{trajectory.role}"
        turns[place] += len(selection.weights)
        left_out.update((place, reason) for reason in selection.reasons if reason)
        idle[place] += _idle(selection)
    metrics: Metrics = {}
    for place, number in ((place, number) for place, number in turns.items() if number):
        shares = {rule: left_out[place, rule] / number for rule in rules}
        metrics[place.format("left_out")] = sum(shares.values())
        if len(rules) > 1:
            metrics |= {f"{place.format('left_out')}/{rule}": share for rule, share in shares.items()}
        if left := number - sum(left_out[place, rule] for rule in rules):
            metrics[place.format("idle")] = idle[place] / left
    return metrics


def _idle(selection: TurnSelection) -> int:
    rows = zip(selection.weights, selection.advantages, strict=True)
    return sum(weight != 0.0 and advantage == 0.0 for weight, advantage in rows)


SELECTION = Observer(selection_metrics, description="turns that the rules of selection leave out, by role and rule")
