"""The board of a run: each iteration's metrics, and figures and texts after snapshots.

Figures are drawn in a separate process (``league.training.board.painter``); what they show depends only on their
snapshot. Nothing here touches the weights or draws a random number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

from arena.records import Episode, flatten_episodes
from games.aliases import short_metric, short_name
from league.config.context import RunContext
from league.population.storage.sampled_matches import SampledMatch
from league.theory.exact.strategy_states import NAMED
from league.training.board.comparison import Comparison
from league.training.board.loggers import Loggers
from league.training.board.metrics_log import MetricsLog, read_metrics, read_mixtures
from league.training.board.observer import FigureData, RoleConduct
from league.training.board.observers import MONITORS, drawn_metrics, figures
from league.training.board.painter import Painter
from league.training.board.painting import Picture
from league.training.board.questions import Chart, Layout, layout, with_curves
from league.training.board.settings import compared_metrics, compared_settings, flat_settings
from league.training.board.transcripts import tell_match, tell_utterances
from league.training.checkpoints.run_state import RunState
from league.training.monitors.alarm import Win
from league.training.monitors.alarms import Alarm
from league.training.monitors.phases import PhaseClock
from league.training.snapshots.measure import PopulationMeasurement
from league.training.starts.gallery import gallery

SHARE_AT_END = "time/board_at_end"  # the share of the run's time for logging and for waiting for the last figures
DRAWING = 0.05  # of a run's time for figures between the first snapshot's and the last's, unless all are wanted
PATIENCE = 6.0  # seconds that the end of a run waits for figures, if ``board.time`` is not more of the run


class Frozen(NamedTuple):
    """The board's data after a snapshot, besides its metrics."""

    measured: PopulationMeasurement
    comparisons: Mapping[str, Comparison]  # by game
    conducts: Sequence[RoleConduct]

    def wins(self) -> dict[str, list[Win]]:
        """Return the cycles of each game whose players were compared."""
        return {game: comparison.wins() for game, comparison in self.comparisons.items()}


class Board:
    """Writes ``metrics.jsonl``, ``mixtures.jsonl`` and ``tb/`` of one run."""

    def __init__(
        self,
        context: RunContext,
        state: RunState,
        phases: PhaseClock,
        loggers: Loggers | None = None,
        warn: Callable[[str], None] = print,
    ) -> None:
        self._loggers = loggers or Loggers()
        self._context, self._config, self._run_dir, self._state = context, context.config, context.run_dir, state
        share = 1.0 if self._config.board.time == 1.0 else DRAWING
        self._phases, self._painter = phases, Painter(self._deliver, warn, share)
        self._log: MetricsLog | None = None
        self._is_drawn = drawn_metrics()
        self._history: list[dict[str, Any]] = []  # of the metrics that figures show
        self._mixtures: list[dict[str, Any]] = []
        self._to_send: SimpleQueue[Picture] = SimpleQueue()  # what the painter's thread has brought
        self._tags = set[str]()  # of curves
        self._layout: Layout = {}

    def finish(self) -> None:
        """Wait for the last figures, at the end of a run."""
        share, started_at = self._config.board.time, self._phases.clock()
        if self._log is None or not share:
            return
        elapsed = started_at - self._phases.started
        self._painter.finish(max(PATIENCE, share * elapsed) if share < 1.0 else math.inf)
        self._send_figures()
        now = self._phases.clock()
        spent = (self._phases.logged + now - started_at) / max(now - self._phases.started, 1e-9)
        self._log.later(SHARE_AT_END, spent, self._state.iteration)

    def close(self) -> None:
        """Close the log, whatever is left to draw."""
        self._painter.close()
        if self._log is not None:
            self._log.close()
        self._loggers.close()

    def write(
        self,
        iteration: int,
        metrics: Mapping[str, float],
        alarms: Sequence[Alarm],
        frozen: Frozen | None,
        samples: Sequence[SampledMatch] = (),
        snapshot: bool = False,
        episodes: Sequence[Episode] = (),
    ) -> None:
        """Log an iteration; after a snapshot also transcripts of ``samples``, utterances of ``episodes``, and tasks.

        Where the snapshot was measured there are mixtures, distributions and figures too.
        """
        log = self._log or self._open(iteration)
        log.write(iteration, metrics, alarms)
        self._lay_out(log, metrics)
        self._loggers.write(iteration, {short_metric(name): value for name, value in metrics.items()})
        self._send_figures()
        self._history.append(self._kept({"iteration": iteration, **metrics}))
        if snapshot and self._config.board.time:
            self._transcripts(log, iteration, samples)
            self._utterances(log, iteration, episodes)
            self._gallery(log, iteration)
        if frozen is not None:
            log.mixtures(iteration, self._state.mixtures)
            self._mixtures.append({"iteration": iteration, **self._state.mixtures})
            if self._config.board.time:
                self._distributions(log, iteration, frozen)
                self._painter.draw(iteration, figures(self._figure_data(iteration, alarms, frozen)))
        if snapshot:
            log.flush()

    def _open(self, iteration: int) -> MetricsLog:
        """Open the log, cut off everything after ``iteration``, and read what came before."""
        log = self._log = MetricsLog(self._run_dir, resume_at=iteration)
        for line in read_metrics(self._run_dir):
            self._history.append(self._kept(line))
            self._tags |= {short_metric(name) for name in line}
        self._mixtures = list(read_mixtures(self._run_dir))
        settings = flat_settings(self._config)
        log.settings(settings, compared_settings(self._config), compared_metrics(self._context.specs))
        return log

    def _lay_out(self, log: MetricsLog, metrics: Mapping[str, float]) -> None:
        """Write the tab of custom scalars again when there are curves for more of its charts."""
        new = {short_metric(name) for name in metrics} - self._tags
        if self._layout and not new:
            return
        self._tags |= new
        cooperative = any(not spec.competitive for spec in self._context.specs.values())
        margins = {short_name(game): _margins(game) for game in self._context.specs}
        observed = {short_name(game): _observed(self._context, game) for game in self._context.specs}
        charts = layout(margins, cooperative, exploited=bool(self._config.league_roles), observed=observed)
        if (charts := with_curves(charts, self._tags)) != self._layout:
            self._layout = charts
            log.layout(charts)

    def _kept(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metrics that figures show."""
        return {name: value for name, value in line.items() if name == "iteration" or self._is_drawn(name)}

    def _distributions(self, log: MetricsLog, iteration: int, frozen: Frozen) -> None:
        for conduct in frozen.conducts:
            log.histogram(f"{conduct.game}/advantages/{conduct.role}", conduct.advantages, iteration)
            if conduct.lengths:
                log.histogram(f"{conduct.game}/reply_lengths/{conduct.role}", conduct.lengths, iteration)

    def _transcripts(self, log: MetricsLog, iteration: int, samples: Sequence[SampledMatch]) -> None:
        """Write the transcripts of sampled matches, each with the reason why it was kept."""
        for sample in samples:
            for why in sample.kept_as:
                transcript = tell_match(
                    sample.episode, sample.advantages, f"{why} of iteration {iteration}", sample.left_out
                )
                self._text(
                    log, f"transcripts/{sample.episode.request.game}/{why.replace(' ', '_')}", transcript, iteration
                )

    def _utterances(self, log: MetricsLog, iteration: int, episodes: Sequence[Episode]) -> None:
        """Write the utterances that raised and lowered the others' belief in the truth the most."""
        for game, seats in self._context.roles.items():
            of_game = [episode for episode in flatten_episodes(episodes) if episode.request.game == game]
            if utterances := tell_utterances(of_game, [probe for role in seats for probe in role.probes]):
                self._text(log, f"utterances/{game}", f"{game} at iteration {iteration}\n\n{utterances}", iteration)

    def _gallery(self, log: MetricsLog, iteration: int) -> None:
        """Write the newest tasks and deals of the pool, by whether they are solved."""
        if (pool := self._state.starts) is None:
            return
        for game in pool.games():
            self._text(log, f"tasks/{game}", gallery(pool.starts(game), f"{game} at iteration {iteration}"), iteration)

    def _deliver(self, picture: Picture) -> None:
        """Write a figure that was drawn, in the painter's thread; services get it in the run's thread."""
        if self._log is not None:
            self._log.figure(picture)
            self._to_send.put(picture)

    def _send_figures(self) -> None:
        """Send services the figures that were drawn since the last call."""
        while not self._to_send.empty():
            picture = self._to_send.get()
            self._loggers.figure(picture.name, picture.png, picture.iteration)

    def _text(self, log: MetricsLog, name: str, text: str, iteration: int) -> None:
        """Write a text for people, and send it."""
        log.text(name, text, iteration)
        self._loggers.text(name, text, iteration)

    def _figure_data(self, iteration: int, alarms: Sequence[Alarm], frozen: Frozen) -> FigureData:
        return FigureData(
            iteration,
            self._context.specs,
            self._history,
            self._mixtures,
            alarms,
            frozen.measured.strategies,
            frozen.comparisons,
            frozen.conducts,
            self._state.population.all(),
            self._state.retired,
            self._state.ratings,
            self._config.evaluation.anchors,
        )


def _observed(context: RunContext, game: str) -> dict[str, Chart]:
    """Return the charts that observers add for a game."""
    charts: dict[str, Chart] = {}
    for observer in MONITORS.loaded().values():
        charts |= observer.charts(context, game) if observer.charts is not None else {}
    return charts


def _margins(game: str) -> list[tuple[str, str, str]]:
    """Return the tags of a game's named probabilities, and of the ends of their bands."""
    names = [f"{state.name}/{action.label}" for state in NAMED.get(game, ()) for action in state.actions]
    return [
        (f"{game}/strategy/{name}", f"{game}/equilibrium/{name}/low", f"{game}/equilibrium/{name}/high")
        for name in names
    ]
