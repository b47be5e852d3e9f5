"""``league replay``: a match step by step, at the terminal or as an HTML page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from games.common.errors import UsageError
from league.cli.parser import Parser

if TYPE_CHECKING:
    from rich.console import Console

    from league.lab.reports.match_list import MatchList
    from league.lab.reports.replay import BoardView, MatchReplay, Step

EXAMPLES = ("runs/pocket", "runs/pocket --list", "matches.jsonl --match 1 --html -o match.html")
PIPE_WIDTH = 160  # characters


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("source", metavar="RUN|FILE", help="a run, or a file that `league match --save` wrote")
    parser.add_argument("--match", type=int, metavar="N", help="which match (default: the newest surprising one)")
    parser.add_argument("--list", action="store_true", help="list the matches")
    parser.add_argument("--html", action="store_true", help="write one HTML page, stepped through with the arrow keys")
    parser.add_argument("-o", "--output", metavar="FILE", help="file that --html writes")


def run(arguments: argparse.Namespace) -> int:
    """Show a match, list the matches, or write the page."""
    from rich.console import Console

    from league.lab.reports.match_list import find_matches
    from league.lab.reports.replay import to_replay

    if arguments.html and not arguments.output:
        raise UsageError("--html needs a file to write, for example --html -o match.html.")
    if arguments.output and not arguments.html:
        raise UsageError("-o is file that --html writess page: give both.")
    matches = find_matches(arguments.source)
    # Without a terminal there is no width to keep to.
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    if arguments.list:
        _print_list(matches, console)
    elif arguments.html:
        _write(matches, arguments.match, Path(arguments.output), console)
    else:
        sample = matches.most_telling() if arguments.match is None else matches.match(arguments.match)
        _show(to_replay(sample), console, pause=sys.stdin.isatty() and sys.stdout.isatty())
        if arguments.match is None and len(matches.matches) > 1:
            console.print(
                f"\n{len(matches.matches)} matches can be replayed: --list shows them, --match N chooses one."
            )
    return 0


def _write(matches: MatchList, index: int | None, path: Path, console: Console) -> None:
    from league.lab.reports.match_list import MOST_MATCHES, replay_page
    from league.lab.reports.pages import write_page

    write_page(path, replay_page(matches, index))
    number = 1 if index is not None else min(len(matches.matches), MOST_MATCHES)
    console.print(f"{path} shows {number} of {len(matches.matches)} matches: open it in a browser; arrow keys step.")


def _print_list(matches: MatchList, console: Console) -> None:
    """Print a line for each match."""
    from rich.table import Table
    from rich.text import Text

    from league.lab.reports.pages import signed

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("match", "game", "iteration", "players", "returns", "turns", "kept as"):
        table.add_column(name, overflow="fold", justify="right" if name in ("match", "iteration", "turns") else "left")
    for sample in matches.matches:
        episode = sample.episode
        table.add_row(
            str(episode.request.index),
            Text(_printable(episode.request.game)),
            "–" if sample.iteration is None else str(sample.iteration),
            Text(_printable(", ".join(episode.request.players))),
            ", ".join(signed(value, 2) for value in episode.returns),
            str(len(episode.turns)),
            ", ".join(sample.kept_as),
        )
    console.print(table)


def _show(replay: MatchReplay, console: Console, pause: bool, indent: int = 0) -> None:
    """Print a match step by step; with ``pause`` the next step comes with Enter."""
    from league.lab.reports.pages import signed

    _print_head(replay, console, indent)
    for step in replay.steps:
        if pause and _asked_to_stop():
            return
        _print_step(step, console, indent)
    if pause and _asked_to_stop():
        return
    _print(console, "", indent)
    _print_board(replay.last_board, None, console, indent)
    returns = ", ".join(f"{role} {signed(value, 2)}" for role, value in zip(replay.roles, replay.returns, strict=True))
    _print(console, f"{replay.ending} Returns: {returns}.", indent, "bold")
    for curves in replay.beliefs:
        _print(
            console, f"belief in the truth before the first turn and after each, probe {curves.probe}:", indent, "dim"
        )
        for line in curves.lines:
            _print(console, f"{line.label}: {' '.join(map('{:.2f}'.format, line.ys))}", indent + 2)
    for child in replay.children:
        _print(console, "", indent)
        _show(child, console, pause, indent + 4)


def _print_head(replay: MatchReplay, console: Console, indent: int) -> None:
    _print(console, replay.title, indent, "bold")
    facts = [f"deal seed {replay.deal_seed}", f"sample seed {replay.sample_seed}"]
    facts += [f"iteration {replay.iteration}"] if replay.iteration is not None else []
    facts += [f"drawn by {replay.rule}"] if replay.rule else []
    facts += [f"kept as {', '.join(replay.kept_as)}"] if replay.kept_as else []
    facts += [f"opened with {replay.task!r}"] if replay.task else []
    _print(console, "; ".join(facts), indent, "dim")


def _print_step(step: Step, console: Console, indent: int) -> None:
    """Print one turn."""
    from league.lab.reports.pages import plain, signed

    _print(console, "", indent)
    _print(console, f"Step {step.number}: {step.role} ({step.player})", indent, "bold")
    _print_board(step.board, step.seat, console, indent + 2)
    if step.reasoning:
        _print(console, "reasons:", indent + 2, "dim")
        _print(console, step.reasoning, indent + 4, "italic")
    _print(console, f"replies: {step.reply!r}" if "\n" not in step.reply else "replies:", indent + 2)
    if "\n" in step.reply:
        _print(console, step.reply, indent + 4)
    choices = f" (of {', '.join(step.legal)})" if len(step.legal) <= 12 else f" (of {len(step.legal)} legal actions)"
    choices = choices if step.legal else " (of free text)"
    _print(console, f"{step.outcome}{choices}", indent + 2, "red" if step.action is None else "green")
    facts = [f"log-prob {plain(step.logprob)} nats in {len(step.tokens)} tokens"] if step.tokens else []
    facts += [f"advantage {signed(step.advantage)}"] if step.advantage is not None else []
    facts += [f"reward {signed(step.reward, 2)}"] if step.reward else []
    facts += [f"left out of the update ({step.left_out.rstrip('.')})"] if step.left_out else []
    if facts:
        _print(console, "; ".join(facts), indent + 2, "dim")


def _print_board(board: BoardView, seat: int | None, console: Console, indent: int) -> None:
    """Print the lines that all seats see, and then each seat's private lines."""
    if board.public.strip():
        _print(console, "all see:", indent, "dim")
        _print(console, board.public, indent + 2)
    for view in board.private:
        only = "only " if board.complete else ""
        _print(console, f"{only}{view.role} sees:", indent, "dim bold" if view.seat == seat else "dim")
        _print(console, view.text, indent + 2)


def _print(console: Console, text: str, indent: int, style: str = "") -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text(_printable(text), style=style), (0, 0, 0, indent), expand=False) if text else "")


def _printable(text: str) -> str:
    """Return a text without control characters, so that a model's text cannot control the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)


def _asked_to_stop() -> bool:
    """Wait for Enter; return whether the user typed q, or has left."""
    try:
        return input("  Enter: next step, q: stop ").strip().lower() == "q"
    except EOFError:
        return True
