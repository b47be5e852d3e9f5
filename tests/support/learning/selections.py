"""Batches for rules of selection, and what the rules make of them."""

from learners.selection import SELECTION, select
from learners.selection.rule import CreditedBatch
from learners.trajectories import Evidence


def batch_of(trajectories, advantages=None, evidence=None, weights=None):
    rows = advantages or [[1.0] * len(t.turns) for t in trajectories]
    evidence = evidence or [Evidence()] * len(trajectories)
    return CreditedBatch(trajectories, evidence, rows, weights or [[1.0] * len(t.turns) for t in trajectories])


def chosen(batch, *rules, state=None, **tables):
    def settings_of(name):
        return SELECTION[name].settings(**tables.get(name, {}))

    return select(batch, rules, state or {}, settings_of)


def saying(trajectory, *replies):
    """Return a trajectory whose turns say this; None is refused."""
    turns = [
        turn._replace(reply=reply or "nonsense", action=reply)
        for turn, reply in zip(trajectory.turns, replies, strict=True)
    ]
    return trajectory._replace(turns=tuple(turns))


def factors(selected):
    return [turns.weights[0] for turns in selected.turns]
