"""Formatting of numbers, estimates, matches and usage. Values that were not computed are a dash, or null in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from arena.records import Episode
    from arena.remote.usage import Usage
    from league.theory.statistics import Estimate


def format_number(value: float | None, signed: bool = False) -> str:
    """Return a number with three decimals, or a dash."""
    if value is None:
        return "–"
    text = f"{value:+.3f}" if signed else f"{value:.3f}"
    return text.replace("-", "−")


def format_percent(share: float | None) -> str:
    """Return a share as a percentage, or a dash."""
    return "–" if share is None else f"{share:.1%}"


def format_interval(estimate: Estimate, signed: bool = False) -> str:
    """Return a mean and its 95 % interval."""
    if estimate.low is None:
        return f"{format_number(estimate.mean, signed)} (no interval)"
    low, high = format_number(estimate.low, signed), format_number(estimate.high, signed)
    return f"{format_number(estimate.mean, signed)} (95% interval {low} to {high})"


def estimate_to_json(name: str, estimate: Estimate) -> dict[str, float | None]:
    """Return an estimate as the JSON fields ``name``, ``name_low`` and ``name_high``."""
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def format_transcript(episode: Episode, labels: Sequence[str]) -> list[str]:
    """Return a match line by line: each seat's observations and replies. ``labels`` name the players by seat."""
    from arena.records import EndReason

    lines = []
    for turn in episode.turns:
        observation = turn.observation.strip().splitlines() or [""]
        first = observation[0] if len(observation) == 1 else ""
        lines.append(f"{turn.role} ({labels[turn.seat]}) sees: {first}".rstrip())
        lines += [f"    {line}" for line in observation] if len(observation) > 1 else []
        if turn.action is None:
            lines.append(f"  replies {turn.reply!r}, which is illegal")
        elif turn.reply.strip() == turn.action:
            lines.append(f"  plays: {turn.action}")
        else:
            lines.append(f"  replies {turn.reply!r} and plays: {turn.action}")
    returns = ", ".join(
        f"{label} {value:+g}".replace("-", "−") for label, value in zip(labels, episode.returns, strict=True)
    )
    ending = "The match is over" if episode.end is EndReason.FINISHED else f"Seat {episode.offender} forfeits"
    lines += [f"{ending}. Returns: {returns}.", *_format_beliefs(episode, labels)]
    for child in episode.children:
        lines.append(f"It opened a match of {child.request.game} with {child.request.task!r}:")
        lines += [f"    {line}" for line in format_transcript(child, child.request.players)]
    return lines


def _format_beliefs(episode: Episode, labels: Sequence[str]) -> list[str]:
    """Return a line for each probe and seat: its belief in the truth before the first turn and after each one."""
    from learners.beliefs import histories

    lines = []
    for (probe, seat), beliefs in histories(episode).items():
        curve = " ".join(f"{belief.in_truth:.2f}" for belief in beliefs)
        lines.append(f"Belief in the truth, probe {probe}, seat {seat} ({labels[seat]}): {curve}")
    return lines


def print_usage(usage: Mapping[str, Usage], console: Console) -> None:
    """Print a paragraph on each player behind a server: its requests, tokens and cost."""
    from arena.remote.usage import format_usage

    for line in format_usage(usage):
        console.print(f"\n{line}", markup=False)


def match_progress() -> Progress:
    """Return a progress bar that counts matches (``progress_bar``)."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    from league.training.monitors.terminal import progress_bar

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return progress_bar(*columns)


def plain_table(*columns: str) -> Table:
    """Return an empty table without lines."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
