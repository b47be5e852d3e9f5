"""Numbers and matches as a person reads them. What was not computed is a dash, never 0."""

from __future__ import annotations

from collections.abc import Sequence

from arena.records import EndReason, Episode
from league.payoffs import Estimate


def number(value: float | None, signed: bool = False) -> str:
    """Return a number with three decimals, or a dash."""
    if value is None:
        return "–"
    text = f"{value:+.3f}" if signed else f"{value:.3f}"
    return text.replace("-", "−")


def percent(share: float | None) -> str:
    """Return a share as a percentage, or a dash."""
    return "–" if share is None else f"{share:.1%}"


def interval(estimate: Estimate, signed: bool = False) -> str:
    """Return a mean and its 95 % interval."""
    if estimate.low is None:
        return f"{number(estimate.mean, signed)} (no interval)"
    low, high = number(estimate.low, signed), number(estimate.high, signed)
    return f"{number(estimate.mean, signed)} (95% interval {low} to {high})"


def transcript(episode: Episode, labels: Sequence[str]) -> list[str]:
    """Return a match line by line: what each seat saw and replied. ``labels`` name the players by seat."""
    lines = []
    for turn in episode.turns:
        seen = turn.observation.strip().splitlines() or [""]
        lines.append(f"{turn.role} ({labels[turn.seat]}) sees: {seen[0] if len(seen) == 1 else ''}".rstrip())
        lines += [f"    {line}" for line in seen] if len(seen) > 1 else []
        if turn.action is None:
            lines.append(f"  replies {turn.reply!r}, which is illegal")
        elif turn.reply.strip() == turn.action:
            lines.append(f"  plays: {turn.action}")
        else:
            lines.append(f"  replies {turn.reply!r} and plays: {turn.action}")
    returns = ", ".join(
        f"{label} {value:+g}".replace("-", "−") for label, value in zip(labels, episode.returns, strict=True)
    )
    how = "The match is over" if episode.end is EndReason.FINISHED else f"Seat {episode.offender} forfeits"
    lines.append(f"{how}. Returns: {returns}.")
    for child in episode.children:
        lines.append(f"It opened a match of {child.request.game} with {child.request.opening!r}:")
        lines += [f"    {line}" for line in transcript(child, child.request.players)]
    return lines
