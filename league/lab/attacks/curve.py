"""The curve of an attack: its gain by its budget, and the endings or prompts that cost the victim most."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from arena.samplers.policy_net import Budget
from league.population.evaluation.constrained_best_response import constrained_response
from league.theory.exact.exploitability import PolicyTable, information_positions
from league.theory.exact.sequence_form import SequenceForm, sequence_form
from league.theory.exact.states import Key
from league.theory.statistics import Estimate
from roles.role import Role

WORST = 3  # transcripts that are shown


class AttackPoint(NamedTuple):
    """The gain of an attack with one budget, in the game's units a match, averaged over seats."""

    budget: float
    loss: Estimate  # exact: without an interval
    by_seat: tuple[float, ...]  # attacked from, or where edits are the attack, attacked
    detail: str = ""  # which edit or text is the worst so far
    edited: str = ""  # the game as it shows that; "" where nothing does harm


class Transcript(NamedTuple):
    """A match or prompt in which an attack with the greatest budget wins most."""

    title: str  # what happened, and how much it counts
    lines: tuple[str, ...]


class AttackCurve(NamedTuple):
    """An attack's points by growing budget."""

    points: tuple[AttackPoint, ...]
    transcripts: tuple[Transcript, ...]


def policy_curve(
    victim: PolicyTable, reference: PolicyTable, budgets: Sequence[float], kind: str, roles: Sequence[Role]
) -> AttackCurve:
    """Return the exact curve of attackers who play one seat, optimally within a bound from the reference.

    ``kind`` is ``distance`` (total variation at every information state), ``control`` or ``partner`` (share of turns).
    The loss is the attacker's gain over the reference in the same seat; in a zero-sum game of two it is the victim's
    loss. A hostile ``partner`` wants the others to get little, and the loss is theirs, averaged over them.
    Raises UsageError for a game that is too large to enumerate.
    """
    form = sequence_form(victim.game)
    seats, harm = range(form.seats), kind == "partner"
    held = [constrained_response(victim, reference, seat, Budget(distance=0.0), harm).value for seat in seats]
    points, attackers = [], []
    for amount in sorted(budgets):
        budget = Budget(distance=amount) if kind == "distance" else Budget(control=amount)
        attackers = [constrained_response(victim, reference, seat, budget, harm) for seat in seats]
        losses = tuple(response.value - value for response, value in zip(attackers, held, strict=True))
        points.append(AttackPoint(amount, exact(math.fsum(losses) / form.seats), losses))
    worst = [
        transcript
        for seat, response in enumerate(attackers)
        for transcript in _endings(form, victim, response.policy, seat, roles, harm)
    ]
    return AttackCurve(tuple(points), tuple(text for _, text in sorted(worst, key=_share, reverse=True)[:WORST]))


def exact(value: float) -> Estimate:
    """Return an exact value as an estimate without an interval."""
    return Estimate(value, value, value)


def edited_losses(
    victim: PolicyTable, edited: Mapping[Key, tuple[float, ...]], reference: PolicyTable
) -> tuple[float, ...]:
    """Return, by seat, the victim's loss there when it plays as ``edited`` and the others as the reference."""
    form = sequence_form(victim.game)
    losses = []
    for seat in range(form.seats):
        values = [
            form.values([(rows if key[0] == seat else reference.probabilities)[key] for key in form.keys])[seat]
            for rows in (victim.probabilities, edited)
        ]
        losses.append(values[0] - values[1])
    return tuple(losses)


def running_worst(
    budgets: Sequence[int],
    games: Sequence[str],
    losses: Callable[[int], tuple[float, ...]],
    told: Sequence[str] = (),
) -> tuple[list[AttackPoint], int | None]:
    """Return the points of an attacker that tries the first edits and takes the worst, and the index of the worst.

    It may also leave the victim alone, so no loss is below 0. ``losses(i)`` are the losses of edit i, by seat;
    ``games[i]`` shows it and ``told[i]`` describes it.
    """
    names = told or games
    points: list[AttackPoint] = []
    best: int | None = None
    worst: tuple[float, ...] = ()
    tried = 0
    for budget in sorted(budgets):
        for index in range(tried, min(budget, len(names))):
            edit_losses = losses(index)
            if math.fsum(edit_losses) > max(math.fsum(worst), 0.0):
                best, worst = index, edit_losses
        tried = max(tried, min(budget, len(names)))
        mean = math.fsum(worst) / len(worst) if worst else 0.0
        point = AttackPoint(budget, exact(mean), worst)
        points.append(point if best is None else point._replace(detail=names[best], edited=games[best]))
    return points, best


def moved_most(
    victim: PolicyTable, edited: Mapping[Key, tuple[float, ...]], game: str, roles: Sequence[Role]
) -> tuple[Transcript, ...]:
    """Return the prompts of the edited ``game`` at which the victim's play changed most, by total variation."""
    shown = information_positions(game)
    distance = {
        key: 0.5 * float(np.abs(np.subtract(row, edited[key])).sum()) for key, row in victim.probabilities.items()
    }
    transcripts = []
    for key in sorted(distance, key=distance.__getitem__, reverse=True)[:WORST]:
        position = shown[key]
        labels = [label for _, label in sorted(zip(position.legal_ids(), position.legal_actions(), strict=True))]
        changes = [
            f"  {label}: {before:.3f} -> {after:.3f}"
            for label, before, after in zip(labels, victim.probabilities[key], edited[key], strict=True)
        ]
        title = f"as {roles[key[0]].name}, moved by {distance[key]:.3f}"
        transcripts.append(Transcript(title, (*position.observe(key[0]).splitlines(), *changes)))
    return tuple(transcripts)


def _share(item: tuple[float, Transcript]) -> float:
    return item[0]


def _endings(
    form: SequenceForm,
    victim: PolicyTable,
    attacker: Mapping[Key, tuple[float, ...]],
    seat: int,
    roles: Sequence[Role],
    harm: bool,
) -> list[tuple[float, Transcript]]:
    """Return the endings that bring the attacker most, each with its probability times its value to the attacker."""
    rows = [(attacker if key[0] == seat else victim.probabilities)[key] for key in form.keys]
    reach = form.chance * form.plan(rows)[form.last].prod(axis=1)
    others = np.delete(form.returns, seat, axis=1).mean(axis=1)
    won = reach * ((others.max() - others) if harm else form.returns[:, seat])
    shown, owners = information_positions(form.game), np.array(form.first)
    transcripts = []
    for ending in np.argsort(-won, kind="stable")[:WORST].tolist():
        lines: list[str] = []
        for other in range(form.seats):
            sequence = int(form.last[ending, other])
            if sequence >= form.seats:  # else the seat had no turn
                index = int(np.searchsorted(owners, sequence, side="right")) - 1
                position = shown[form.keys[index]]
                action = form.legal[index][sequence - form.first[index]]
                label = position.legal_actions()[position.legal_ids().index(action)]
                player = "the attacker" if other == seat else "the player"
                lines += [f"{roles[other].name} ({player}) last sees:"]
                lines += [f"    {line}" for line in position.observe(other).splitlines()] + [f"  plays: {label}"]
        paid = f"the others get {others[ending]:+g}" if harm else f"the attacker gets {form.returns[ending, seat]:+g}"
        title = f"attacked from {roles[seat].name}: {reach[ending]:.1%} of matches, in which {paid}"
        transcripts.append((float(won[ending]), Transcript(title, tuple(lines))))
    return transcripts
