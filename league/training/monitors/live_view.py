"""The live view of a training run: a table that refreshes on a terminal, or an occasional line elsewhere.

It shows these metrics of the loop, as far as they have been computed: ``GAME/score/ROLE``,
``GAME/return/ROLE``, ``GAME/share/ACTION``,
``GAME/matches``, the metrics of ``CHANGES`` below ``GAME/``, ``illegal_rate``, ``rating``, ``gap``,
``tokens_per_second``. Each alarm has a line while it rings; without a terminal, one line when it starts and
one when it stops.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from games.aliases import short_name
from league.training.monitors.alarms import Alarm
from league.training.monitors.terminal import SECONDS_BETWEEN_LINES, Terminal, Ticker, format_duration

# Metrics shown as a change from their first value to their latest: name below GAME/, and label.
CHANGES = {
    "exploitability": "exploitability",
    "mixture_exploitability": "… of the mixture",
    "return": "joint return",
    "score_against_random": "score against random",
    "held_out_return": "return on held-out deals",
}


class LiveView:
    """Shows a run while it trains. Use it as a context manager; it writes to standard error.

    A resumed run has finished ``done`` iterations, and ``before`` are their metrics, the oldest first: changes are
    shown from these on. ``clock`` returns seconds. ``on_update`` is called with the number of each iteration, 0 for the
    measurements before the first one, and its metrics.
    """

    def __init__(
        self,
        games: Sequence[str],
        iterations: int,
        done: int = 0,
        before: Iterable[Mapping[str, float]] = (),
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_update: Callable[[int, Mapping[str, float]], None] | None = None,
    ) -> None:
        self._on_update = on_update
        self._games = list(games)
        self._iterations = iterations
        self._done = done
        self._pace: tuple[int, float] | None = None  # iterations done and the time at the first update
        self._console = console or Terminal(stderr=True)
        self._clock = clock
        self._started = clock()
        self._last_line = float("-inf")
        self._printed = time.monotonic()
        self._first: dict[str, float] = {}  # the earliest value of each metric
        self._latest: dict[str, float] = {}
        for metrics in before:
            self._remember(metrics)
        self._activity = "starting"
        self._announcement = ""
        self._alarms: list[Alarm] = []
        terminal = self._console.is_terminal
        self._live = Live(get_renderable=self._view, console=self._console, refresh_per_second=2) if terminal else None
        self._ticker = Ticker(self._still)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        else:
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
        else:
            self._ticker.stop()

    def set_activity(self, text: str) -> None:
        """Show what the run is doing now, for work that takes more than a moment ("cold start")."""
        self._activity = text
        if not self._live:
            self.print_line(f"{text} ...")

    def announce(self, text: str) -> None:
        """Show a text from the next refresh on; without a terminal, print it soon.

        A signal handler may call it: it prints nothing itself, since it may have interrupted code that is printing.
        """
        self._announcement = text
        if not self._live:
            threading.Thread(target=self.print_line, args=(text,), name="announcement").start()

    def update(self, iteration: int, metrics: Mapping[str, float], alarms: Sequence[Alarm] = ()) -> None:
        """Show one finished iteration, counted from 0 (−1: the measurements before the first one).

        Missing metrics keep their last value; ``alarms`` are all that ring now.
        """
        self._done = iteration + 1
        self._activity = "training"
        self._remember(metrics)
        time_now = self._clock()
        self._pace = self._pace or (self._done, time_now)
        self._update_alarms(alarms)
        print_now = time_now - self._last_line >= SECONDS_BETWEEN_LINES or self._done == self._iterations
        if not self._live and (print_now or "rating" in metrics):
            self._last_line = time_now
            self.print_line(self._line())
        if self._on_update is not None:
            self._on_update(iteration + 1, metrics)

    def _still(self) -> None:
        """Print what takes long, such as a cold start or an iteration of a large model."""
        if time.monotonic() - self._printed >= SECONDS_BETWEEN_LINES:
            done = f", iteration {self._done} of {self._iterations}" if self._activity == "training" else ""
            self.print_line(f"still {self._activity}{done} ({self._times()})")

    def _remember(self, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._first.setdefault(name, value)
            self._latest[name] = value

    def print_line(self, text: str) -> None:
        """Print one line that stays, above the view if there is one."""
        self._printed = time.monotonic()
        self._console.print(Text(text), soft_wrap=not self._live)  # a log has no width

    def _update_alarms(self, alarms: Sequence[Alarm]) -> None:
        """Store the alarms that ring now; without a terminal, print those that started or stopped."""
        before, self._alarms = self._alarms, list(alarms)
        if not self._live:
            old, new = ({(alarm.name, alarm.subject): alarm for alarm in ringing} for ringing in (before, alarms))
            for key, alarm in new.items():
                if key not in old:
                    self.print_line(str(alarm))
            for key, alarm in old.items():
                if key not in new:
                    self.print_line(f"The alarm of iteration {alarm.since} is over: {alarm.name} of {alarm.subject}.")

    def seconds_left(self) -> float | None:
        """Return the seconds that the remaining iterations will take at the pace so far; None before there is one.

        The pace counts from the first update, because work before it, such as a cold start, happens only once.
        """
        if self._pace is None or self._done == self._pace[0]:
            return None
        done, since = self._pace
        return (self._clock() - since) / (self._done - done) * (self._iterations - self._done)

    def _scores(self, game: str) -> str:
        """Return the scores by role, or returns where winning is not the point, and the shares of actions."""
        parts = []
        for kind in ("score", "return", "share"):
            prefix = f"{game}/{kind}/"
            by_name = {
                name.removeprefix(prefix): value for name, value in self._latest.items() if name.startswith(prefix)
            }
            if by_name:
                parts.append(f"{kind} " + "  ".join(f"{name} {value:.2f}" for name, value in by_name.items()))
        return ", ".join(parts) or "–"

    def _measured(self, game: str) -> list[tuple[str, str]]:
        """Return the metrics of ``CHANGES`` that this game has, with their labels."""
        return [(f"{game}/{name}", text) for name, text in CHANGES.items() if f"{game}/{name}" in self._latest]

    def _change(self, name: str) -> str:
        return f"{self._first[name]:.3f} → {self._latest[name]:.3f}"

    def _facts(self) -> list[str]:
        """Return the metrics of the whole run, formatted."""
        formats = {
            "rating": "newest snapshot's rating {:.1f}",
            "illegal_rate": "illegal replies {:.1%}",
            "gap": "log-prob gap {:.4f} nats",
            "tokens_per_second": "{:,.0f} tokens/s",
        }
        return [text.format(self._latest[name]) for name, text in formats.items() if name in self._latest]

    def _times(self) -> str:
        seconds = self.seconds_left()
        elapsed = f"{format_duration(self._clock() - self._started)} elapsed"
        return elapsed if seconds is None else f"{elapsed}, about {format_duration(seconds)} left"

    def _line(self) -> str:
        parts = [f"iteration {self._done}/{self._iterations} ({self._times()})"]
        for game in self._games:
            parts.append(f"{short_name(game)}: {self._scores(game)}")
            parts[-1] += "".join(f", {text} {self._change(name)}" for name, text in self._measured(game))
        return "; ".join(parts + self._facts())

    def _view(self) -> RenderableType:
        head = Text(
            f"{self._announcement or self._activity}: iteration {self._done} of {self._iterations}, {self._times()}",
            style="bold",
        )
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for column in ("game", "matches", "by role", "measured at snapshots, first → latest"):
            table.add_column(column, justify="right" if column == "matches" else "left")
        for game in self._games:
            matches = self._latest.get(f"{game}/matches")
            changes = [f"{text} {self._change(name)}" for name, text in self._measured(game)]
            table.add_row(
                short_name(game),
                "–" if matches is None else f"{matches:,.0f}",
                self._scores(game),
                "\n".join(changes) or "–",
            )
        bar = Table.grid(expand=True)  # the bar itself ends without a newline
        bar.add_row(ProgressBar(total=self._iterations, completed=self._done))
        alarms = [Text(str(alarm), style="bold red") for alarm in self._alarms]
        return Group(head, bar, table, Text("   ".join(self._facts()), style="dim"), *alarms)
