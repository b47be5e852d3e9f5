"""Matches as text for people to read: everything that was said stands in quotation marks or indented, as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arena.records import Episode
from learners.trajectories import Trajectory

MOST_LETTERS = 600  # of one reply or observation
MOST_TURNS = 60  # of one match


class Told(NamedTuple):
    """A trajectory that is worth reading, and why."""

    why: str  # best, worst or most_surprising
    trajectory: int  # its index


def worth_reading(game: str, trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]]) -> list[Told]:
    """Return the best, the worst and the most surprising trajectory of a game: by return, and by largest |advantage|.

    The first of equals. Empty if no trajectory has a turn.
    """
    mine = [i for i, trajectory in enumerate(trajectories) if trajectory.game == game and trajectory.turns]
    if not mine:
        return []
    best = max(mine, key=lambda i: (trajectories[i].match_return, -i))
    worst = min(mine, key=lambda i: (trajectories[i].match_return, i))
    surprising = max(mine, key=lambda i: (max(map(abs, advantages[i])), -i))
    return [Told("best", best), Told("worst", worst), Told("most_surprising", surprising)]


def tell_match(episode: Episode, advantages: dict[tuple[int, int], float] | None = None, heading: str = "") -> str:
    """Return a whole match, turn by turn; ``advantages`` by (seat, the seat's turn)."""
    request = episode.request
    lines = [heading] if heading else []
    lines.append(
        f"{request.game}, match {request.index}, deal {request.deal_seed}, drawn by {request.rule or 'nobody'}"
    )
    lines.append("players: " + ", ".join(f"seat {seat} {player}" for seat, player in enumerate(request.players)))
    lines.append("returns: " + ", ".join(f"{value:+g}" for value in episode.returns) + f"; {episode.end}")
    counts: dict[int, int] = {}
    for number, turn in enumerate(episode.turns[:MOST_TURNS], 1):
        index = counts.get(turn.seat, 0)
        counts[turn.seat] = index + 1
        lines += ["", f"turn {number}: {turn.role} (seat {turn.seat}) observes"]
        lines += _quoted(turn.observation)
        legal = f"{', '.join(map(repr, turn.legal[:12]))}{' …' if len(turn.legal) > 12 else ''}"
        lines.append(f"  asked for: {turn.form}" if turn.form else f"  legal: {legal}")
        lines.append(f"  reply: {_short(turn.reply)!r}" + ("" if turn.action is not None else "  ILLEGAL"))
        if turn.form and turn.action not in (None, turn.reply):
            lines.append(f"  read as: {turn.action!r}")
        facts = [f"reward {turn.reward:+g}"]
        if turn.tool:
            facts.append(f"called {turn.tool}")
        if turn.trace is not None:
            facts.append(f"log p {sum(turn.trace.logprobs):.3f} over {len(turn.trace.reply_ids)} tokens")
        if advantages and (turn.seat, index) in advantages:
            facts.append(f"advantage {advantages[turn.seat, index]:+.3f}")
        lines.append("  " + ", ".join(facts))
    if len(episode.turns) > MOST_TURNS:
        lines += ["", f"and {len(episode.turns) - MOST_TURNS} turns more"]
    return "\n".join(lines)


def _quoted(text: str) -> list[str]:
    return [f"  | {line}" for line in _short(text).splitlines()]


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} … ({len(text)} letters)"
