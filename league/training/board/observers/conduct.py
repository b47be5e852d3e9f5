"""How roles behave in an iteration: replies, entropy, credit and actions by role and turn, measured and drawn.

Everything is measured on at most ``MOST_TURNS`` turns a role, evenly spaced, so that it costs the same in large runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean, pstdev

from arena.records import Turn
from league.training.board.figures.canvas import Drawing
from league.training.board.figures.charts import ByTurn, draw_actions, draw_by_turn, draw_shares
from league.training.board.observer import Figure, FigureData, Observer, RoleConduct
from league.training.board.questions import BREAKING, CHANGE, DOING
from league.training.monitors.reply_alarms import reasoning_tokens
from learners.trajectories import Trajectory
from roles.role import ReplyForm, Role

MOST_TURNS = 2_000  # of a role
LAST_TURN = 5  # turns from this one on are counted together
OPENINGS = 9  # first moves of a role that are logged
REPLY_KINDS = ("legal", "tool", "retried", "illegal", "truncated")
_NOT_IN_TAGS = re.compile(r"[^-\w.]+")


def observe_conduct(
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    roles: Mapping[str, Sequence[Role]],
) -> list[RoleConduct]:
    """Return the conduct of each role that had a turn, by game and role. ``roles`` are by game and seat."""
    by_role: dict[tuple[str, str], list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        if trajectory.turns:
            by_role.setdefault((trajectory.game, trajectory.role), []).append(index)
    conducts = []
    for (game, name), indices in by_role.items():
        turns = sum(len(trajectories[i].turns) for i in indices)
        chosen = indices[:: -(-turns // MOST_TURNS)]
        role = roles[game][trajectories[indices[0]].seat]
        conduct = RoleConduct(game, name, [], [], [], [], [], [], Counter())
        for index in chosen:
            _add(conduct, trajectories[index], advantages[index], role)
        conducts.append(conduct)
    return conducts


def conduct_metrics(conducts: Sequence[RoleConduct]) -> dict[str, float]:
    """Return the metrics of roles' conduct, ``GAME/WHAT/ROLE/…``; what a role cannot do is absent.

    ``advantage/ROLE/turn_K/mean`` and ``/spread`` in the units of the updates, ``entropy/ROLE/turn_K`` in nats a
    reply, ``opening/ROLE/ACTION`` as a share, ``replies/ROLE/KIND`` as a share of all replies,
    ``reply_length/ROLE`` and ``reasoning_length/ROLE`` in tokens. ``turn_5`` counts all turns from the fifth on.
    """
    metrics: dict[str, float] = {}
    for c in conducts:
        for turn, numbers in enumerate(c.advantages_by_turn, 1):
            name = f"{c.game}/advantage/{c.role}/turn_{turn}"
            metrics[f"{name}/mean"], metrics[f"{name}/spread"] = fmean(numbers), pstdev(numbers)
        for turn, numbers in enumerate(c.entropies_by_turn, 1):
            if numbers:
                metrics[f"{c.game}/entropy/{c.role}/turn_{turn}"] = fmean(numbers)
        openings = c.actions_by_turn[0] if c.actions_by_turn else Counter[str]()
        for action, count in openings.most_common(OPENINGS):
            metrics[f"{c.game}/opening/{c.role}/{tag_part(action)}"] = count / openings.total()
        for kind, count in c.replies.items():
            metrics[f"{c.game}/replies/{c.role}/{kind}"] = count / c.replies.total()
        if c.lengths:
            metrics[f"{c.game}/reply_length/{c.role}"] = fmean(c.lengths)
            metrics[f"{c.game}/reasoning_length/{c.role}"] = fmean(c.reasoning)
    return metrics


def tag_part(text: str) -> str:
    """Return a text, which a model may have written, as part of a metric's name."""
    return _NOT_IN_TAGS.sub("_", text)[:40].strip("_") or "_"


def _add(conduct: RoleConduct, trajectory: Trajectory, advantages: Sequence[float], role: Role) -> None:
    """Add one trajectory's turns."""
    before: Turn | None = None
    for index, (turn, advantage) in enumerate(zip(trajectory.turns, advantages, strict=True)):
        turn_index = min(index, LAST_TURN - 1)
        for lists in (conduct.advantages_by_turn, conduct.entropies_by_turn):
            if len(lists) <= turn_index:
                lists.append([])
        if len(conduct.actions_by_turn) <= turn_index:
            conduct.actions_by_turn.append(Counter())
        conduct.advantages.append(advantage)
        conduct.advantages_by_turn[turn_index].append(advantage)
        if turn.trace is not None:
            conduct.entropies_by_turn[turn_index].append(-sum(turn.trace.logprobs))
            if role.reply is ReplyForm.FREE or turn.form:
                conduct.lengths.append(len(turn.trace.reply_ids))
                conduct.reasoning.append(reasoning_tokens(role, turn.reply, len(turn.trace.reply_ids), turn.form))
        if len(turn.legal) > 1 and turn.action is not None and not turn.tool:
            conduct.actions_by_turn[turn_index][turn.action] += 1
        if role.reply is ReplyForm.FREE or role.tools or turn.form:
            conduct.replies[_kind(turn, before, role)] += 1
        before = turn


def _kind(turn: Turn, before: Turn | None, role: Role) -> str:
    """Return a reply's kind: legal, legal after a retry, illegal, illegal because truncated, or a tool call."""
    if turn.tool:
        return "tool"
    if turn.action is None:
        cut = turn.trace is not None and len(turn.trace.reply_ids) >= role.max_reply_tokens
        return "truncated" if cut else "illegal"
    return "retried" if before is not None and before.action is None else "legal"


def actions(data: FigureData, game: str) -> Drawing:
    """Draw what is played: shares of actions by role and turn."""
    conducts = data.of_game(game)
    shares = {
        conduct.role: {
            f"turn {turn}": {action: count / counts.total() for action, count in counts.items()}
            for turn, counts in enumerate(conduct.actions_by_turn, 1)
            if counts
        }
        for conduct in conducts
    }
    return partial(draw_actions, f"{game}: what does it play?", shares)


def credit(data: FigureData, game: str) -> Drawing:
    """Draw whether a role is starved of signal: advantages and entropies by role and turn."""
    conducts = data.of_game(game)
    credit = [
        ByTurn(c.role, [fmean(x) for x in c.advantages_by_turn], [pstdev(x) for x in c.advantages_by_turn])
        for c in conducts
    ]
    rows = {"advantage by turn, with its spread": credit}
    entropy = [ByTurn(c.role, [fmean(x) if x else 0.0 for x in c.entropies_by_turn], []) for c in conducts]
    if any(any(role.means) for role in entropy):
        rows["entropy of a reply by turn, nats"] = entropy
    return partial(draw_by_turn, f"{game}: is a role starved of signal?", rows)


def replies(data: FigureData, game: str) -> Drawing:
    """Draw what replies are: shares of legal, illegal and other replies over iterations."""
    prefix = f"{game}/replies/"
    lines = [line for line in data.history if any(name.startswith(prefix) for name in line)]
    parts = {}
    for kind in REPLY_KINDS:
        shares = [[v for n, v in line.items() if n.startswith(prefix) and n.endswith(f"/{kind}")] for line in lines]
        roles = [len({n.split("/")[2] for n in line if n.startswith(prefix)}) for line in lines]
        if any(shares):
            parts[kind] = [sum(share) / number for share, number in zip(shares, roles, strict=True)]
    latest = {kind: shares[-1] for kind, shares in parts.items()}
    return partial(draw_shares, f"{game}: what are its replies?", [line["iteration"] for line in lines], parts, latest)


CONDUCT = Observer(
    lambda record: conduct_metrics(record.conducts),
    description="replies, entropy, credit and first moves by role and turn",
    of_snapshots=True,
)
ACTIONS_FIGURE = Figure(
    actions,
    question=DOING,
    games=lambda data: [game for game in data.specs if game not in data.strategies and data.of_game(game)],
    pinned=True,
)
CREDIT_FIGURE = Figure(credit, question=CHANGE, games=lambda data: filter(data.of_game, data.specs), pinned=True)
REPLIES_FIGURE = Figure(
    replies,
    question=BREAKING,
    games=lambda data: [game for game in data.specs if any(conduct.replies for conduct in data.of_game(game))],
    metrics=(r".+/replies/.+",),
)
