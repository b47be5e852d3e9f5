"""The loop. Each iteration is a list of verbs, and each verb reads only what earlier ones returned:

gather (draw_matches -> play -> with_forks -> submit) -> collect -> record -> snapshot -> report -> checkpoint

The only backward edge is the payoff table, which the next draw reads. ``submit`` sends trajectories to the learner, and
``collect`` brings its weights into the run's state; in between the learner does gather_evidence -> credit_turns ->
update_policies (``league.training.learning.learner``), in this process or in others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from arena.records import Episode, MatchRequest, flatten_episodes
from league.config.context import RunContext
from league.population.evaluation.teams import live_cast
from league.population.matchmaking import DrawContext, MetaStrategy, draw_matches, matches_by_game
from league.population.matchmaking.self_play import rotate_seats
from league.population.storage.sampled_matches import SampledMatch, sample_matches, save_samples
from league.training.backends.local import LocalRollouts
from league.training.board.board import Board, Frozen
from league.training.board.comparison import compare_population
from league.training.board.loggers import Loggers
from league.training.board.observer import Record
from league.training.board.observers import observe
from league.training.board.observers.conduct import observe_conduct
from league.training.checkpoints.checkpoint import (
    finish_checkpoint,
    publish,
    save_checkpoint,
    write_checkpoint,
    write_results,
)
from league.training.checkpoints.played import PlayedMatches
from league.training.checkpoints.run_state import RunState
from league.training.evidence.branched import with_forks
from league.training.evidence.monte_carlo import monte_carlo_estimates
from league.training.evidence.preferences import Judges
from league.training.evidence.shaping import with_shaping
from league.training.evidence.source import AfterPlay
from league.training.evidence.sources import evidence_from_play
from league.training.evidence.teachers import Teachers
from league.training.interfaces import Learner, LearnerLost, LearnResult, RolloutBackend
from league.training.learning.iteration import learning_now
from league.training.learning.learner import InProcessLearner
from league.training.learning.learner_pool import MAX_DEATHS
from league.training.learning.starts import with_starts
from league.training.loop.failures import stop_if_going_wrong
from league.training.loop.interrupt import StopRequest
from league.training.loop.stream import Stream
from league.training.monitors.alarms import Alarm, check_alarms
from league.training.monitors.history_alarms import LANGUAGE_KL
from league.training.monitors.live_view import LiveView
from league.training.monitors.phases import clock_of_models, counts_as
from league.training.snapshots.distilling import distil_if_due
from league.training.snapshots.exploiter_cycle import due_with_mains, exploiters_due
from league.training.snapshots.freeze import Snapshots
from league.training.snapshots.judged_games import judge_games
from learners.trajectories import to_trajectories
from roles.role import fixed_names

Metrics = dict[str, float]


def run_loop(league: League, stop: StopRequest) -> bool:
    """Train from the state's iteration to the configured last one; return False if stopped before.

    A kill loses at most the iteration since the last checkpoint. The checkpoint comes last in an iteration, after the
    log of metrics: lines beyond the checkpoint can be removed on resuming, but missing lines could not be recovered.
    """
    context, state = league.context, league.state
    begins, sharded = not state.population, context.config.optimizer.sharded
    if begins:
        league.report(0, None, league.snapshot(0))
    if begins and not sharded:
        league.checkpoint()
    league.start_learning()
    if begins and sharded:  # all processes write their parts of the first checkpoint, too
        league.checkpoint()
    for iteration in range(state.iteration + 1, context.config.iterations + 1):
        league.gather(iteration)
        learned = league.collect(iteration)
        results = league.record(iteration, learned)
        snapshot = league.snapshot(iteration)
        league.report(iteration, results, snapshot)
        stops = stop.requested
        league.checkpoint(due=bool(snapshot) or stops or iteration == context.config.iterations)
        stop_if_going_wrong(context.config, state)
        if stops:
            break
    league.finish_board()
    league.finish_checkpoint()
    publish(context.run_dir, state)
    return state.iteration >= context.config.iterations


class Results(NamedTuple):
    """An iteration's record, and the metrics of playing and learning."""

    record: Record
    metrics: Metrics


class Services(NamedTuple):
    """What a session opens for the loop. Without them it plays and learns in this process, and shows nothing."""

    learner: Learner | None = None
    rollouts: RolloutBackend | None = None
    view: LiveView | None = None
    teachers: Teachers | None = None
    judges: Judges | None = None
    loggers: Loggers | None = None


ALONE = Services()


class League:
    """The verbs of the loop, over one run's state."""

    def __init__(self, context: RunContext, state: RunState, services: Services = ALONE) -> None:
        self.context, self.config, self.state = context, context.config, state
        self._teachers, self._judges, self.view = services.teachers, services.judges, services.view
        self.learner = services.learner or InProcessLearner(self.config, state)
        self.rollouts = services.rollouts or LocalRollouts(context, state.policies)
        self._engine = self.rollouts.engine
        models = map(self.config.model_of, state.policies)
        self.phases = clock_of_models({(model.device, model.dtype) for model in models})
        warn = self.view.print_line if self.view is not None else print
        self._board = Board(context, state, self.phases, services.loggers, warn)
        self._ages: Metrics = {}  # of what a stream has submitted last
        self._started, self._tokens_before = time.perf_counter(), 0
        for policy in state.policies.values():
            self._engine.add(policy.live_id, policy.lm)
        self._snapshots = Snapshots(context, state, self._engine, self.play, self.rollouts.fixed)
        self._played = PlayedMatches(context.run_dir)
        self._stream: Stream | None = None
        if self.config.async_learners.streams:

            def draw(iteration: int) -> list[MatchRequest]:
                return self._with_casts(self.draw_matches(iteration))

            self._stream = Stream(self.config, context.run_dir, state, self.rollouts, draw)

    def close(self) -> None:
        """Close the rollout backend and the log, once a checkpoint that is being written is there."""
        with suppress(OSError, RuntimeError):  # of a loop that has ended without one
            finish_checkpoint(self.state)
        self._board.close()
        self.rollouts.close()

    def start_learning(self) -> None:
        """Start the learner, and submit what a resumed run had played ahead."""
        self.learner.begin()
        for iteration, episodes in sorted(self.state.played_ahead.items()):
            self.submit(iteration, episodes)

    def gather(self, iteration: int) -> None:
        """Draw and play matches until an iteration's are submitted to the learner."""
        self._started = time.perf_counter()
        if self._stream is None:
            for played in self.iterations_to_play(iteration):
                episodes = self._play_or_remember(played)
                self.submit(played, with_forks(self.context, self.state, self.play, episodes))
        else:
            with self.phases.phase("play"):
                self._engine.refresh()
                episodes = self._stream.batch(iteration)
            self.submit(iteration, episodes)

    def iterations_to_play(self, iteration: int) -> range:
        """Return the iterations whose matches are to be played before this one is collected.

        These are this iteration and the ones up to the learner's lead, except those already played.
        """
        played = max(self.state.played_ahead, default=self.state.iteration)
        return range(played + 1, min(iteration + self.learner.lead, self.config.iterations) + 1)

    @counts_as("play")
    def draw_matches(self, iteration: int) -> list[MatchRequest]:
        """Return an iteration's match requests, of every game that is due."""
        specs, roles = self.context.specs, self.context.roles
        members, fixed = self._snapshots.members(), frozenset(fixed_names(roles))
        learning = learning_now(self.config, list(self.state.policies), iteration)
        requests: list[MatchRequest] = []
        for game, matches in matches_by_game(self.config, specs, self.state.judged.active, iteration).items():
            meta = self.state.meta.get(game, MetaStrategy())
            cast = live_cast(specs[game], roles, learning)
            live = rotate_seats(self.context.live[game], iteration, self.config.matchmaking.swap_every)
            drawn = draw_matches(
                self.context,
                DrawContext(game, live, members, self.state.payoffs.pair_record, meta, fixed),
                iteration=iteration,
                learning=learning,
                matches=matches,
                first_index=self.state.next_match + len(requests),
                trains_in_submatches=any(any(below.trained) for below in cast),
            )
            drawn = with_starts(self.config, self.state.starts, drawn, iteration)
            requests += [request._replace(cast=cast) for request in drawn] if cast else drawn
        self.state.next_match += len(requests)
        return requests

    @counts_as("play")
    def play(self, requests: Sequence[MatchRequest]) -> list[Episode]:
        """Play matches with the current weights; submatches have live policies unless a request has its own cast.

        ``flatten_episodes`` numbers submatches after the matches, so they count towards the next match's index too.
        """
        self._engine.refresh()
        episodes = self.rollouts.play(self._with_casts(requests))
        self.state.next_match += len(flatten_episodes(episodes)) - len(episodes)
        return episodes

    def _play_or_remember(self, iteration: int) -> list[Episode]:
        """Return an iteration's matches; one that a killed run had played, and not saved as learned, remembers them."""
        requests = self.draw_matches(iteration)
        if self._is_saved(iteration):
            return list(self.play(requests))
        episodes: list[Episode] | None = self._played.of(iteration, self._with_casts(requests))
        if episodes is None:
            episodes = self.play(requests)
            self._played.keep(iteration, episodes)
        else:
            self.state.next_match += len(flatten_episodes(episodes)) - len(episodes)
        return episodes

    def _is_saved(self, iteration: int) -> bool:
        """Return whether a checkpoint follows an iteration in any case."""
        return iteration % self.config.checkpoint_every == 0

    def _with_casts(self, requests: Sequence[MatchRequest]) -> list[MatchRequest]:
        casts = {game: live_cast(spec, self.context.roles) for game, spec in self.context.specs.items()}
        seated = [
            request if request.cast or not casts[request.game] else request._replace(cast=casts[request.game])
            for request in requests
        ]
        return self.state.note_store.given(self.state.notes, seated)

    @counts_as("learn")
    def submit(self, iteration: int, episodes: list[Episode]) -> None:
        """Give an iteration's trajectories and evidence to the learner; keep its matches until they are collected."""
        episodes = with_shaping(self.context, iteration, self._judged(episodes))
        trajectories = to_trajectories(episodes, self.context.roles.__getitem__, self.context.scales)
        if self._stream is not None:
            trajectories, self._ages = self._stream.fresh(trajectories)
        estimates = monte_carlo_estimates(self.context, self.rollouts, iteration, episodes, trajectories)
        self._engine.sleep()
        self.state.played_ahead[iteration] = episodes
        matches = {episode.request.index: episode for episode in flatten_episodes(episodes)}
        play = AfterPlay(trajectories, matches, self.state.policies, self._teachers, estimates)
        self.learner.submit(iteration, trajectories, evidence_from_play(self.context, play))

    def _judged(self, episodes: list[Episode]) -> list[Episode]:
        """Return matches with judges' preferences; in a stream, others continue until the judges have answered."""
        if self._judges is None:
            return episodes
        asked = self._judges.ask(episodes)
        if self._stream is not None:
            self._stream.play_while(lambda: not asked.ready())
        return asked.read()

    def collect(self, iteration: int) -> LearnResult:
        """Wait for an iteration's learning; the run's state then has the policies after it."""
        if self._stream is not None:
            with self.phases.phase("play"):
                self._stream.play_while(lambda: not self.learner.ready(iteration))
        with self.phases.phase("learn" if isinstance(self.learner, InProcessLearner) else "wait"):
            learned = self.learner.collect(iteration)
        return learned._replace(metrics=learned.metrics | self._ages)

    def record(self, iteration: int, learned: LearnResult) -> Results:
        """Record an iteration's matches and results; return them with the metrics of playing and learning."""
        self.state.iteration = iteration
        episodes = self.state.played_ahead.pop(iteration)
        results = self.state.record([episode for episode in episodes if not episode.request.fork])
        record = Record(self.context, iteration, episodes, results, learned, self.state.starts)
        metrics = learned.metrics | observe(record) | self.rollouts.metrics()
        before, self._tokens_before = self._tokens_before, self._engine.tokens
        metrics["tokens_per_second"] = (self._tokens_before - before) / (time.perf_counter() - self._started)
        return Results(record, metrics)

    @counts_as("evaluate")
    def snapshot(self, iteration: int) -> Metrics:
        """Freeze the policies that are due into the population; return their measurements, empty if none is due."""
        main = iteration % self.config.snapshot_every == 0 or iteration == self.config.iterations
        kinds = self.config.league_roles
        due = [name for name in self.state.policies if main and name not in kinds]
        if main:  # partners come first, so that new main snapshots are rated with partners of the same age
            partners = due_with_mains(self.config)
            due = [name for name in partners if iteration or self.config.policy(name).frozen] + due
        if iteration:
            due += exploiters_due(self.context, self.state, self._snapshots.members(), iteration)
        if not due:
            return {}
        measured = self._snapshots.freeze(due, iteration) | distil_if_due(self.context, iteration)
        if main:
            tell = self.view.print_line if self.view is not None else None
            measured |= judge_games(self.context, self.state, self.play, tell)
        return measured or {"snapshots": float(len(self.state.population.all()))}  # where there is nothing to measure

    def report(self, iteration: int, results: Results | None, snapshot: Metrics) -> None:
        """Log and show an iteration and its alarms; after a snapshot, save some of its episodes.

        Iteration 0 has only a snapshot.
        """
        record = results.record if results is not None else None
        frozen = self._frozen(record) if snapshot else None
        metrics, alarms = snapshot, list[Alarm]()
        if results is not None:
            metrics, alarms = self._watch(results.record, results.metrics | snapshot, frozen)
        elif any(name.endswith(LANGUAGE_KL) for name in snapshot):  # of a pretrained model, after its cold start
            alarms, rung, self.state.alarms = check_alarms(self.context, self.state.alarms, iteration, (), (), snapshot)
            metrics = snapshot | rung
        with self.phases.phase("log"):
            samples = self._save_samples(record) if record is not None and snapshot else []
            played = record.episodes if record is not None else ()
            self._board.write(iteration, metrics, alarms, frozen, samples, bool(snapshot), played)
        if self.view is not None:
            self.view.update(iteration - 1, metrics, alarms)

    @counts_as("watch")
    def _watch(self, record: Record, metrics: Metrics, frozen: Frozen | None) -> tuple[Metrics, list[Alarm]]:
        """Return an iteration's metrics, including snapshots, time and alarms, and the alarms that ring."""
        alarms, alarm_metrics, self.state.alarms = check_alarms(
            self.context,
            self.state.alarms,
            record.iteration,
            record.learned.trajectories,
            record.learned.advantages,
            metrics,
            frozen.wins() if frozen is not None else {},
        )
        if frozen is not None:
            metrics = metrics | observe(record._replace(conducts=frozen.conducts), of_snapshots=True)
        seconds = {"seconds": time.perf_counter() - self._started}
        return metrics | self.phases.metrics() | seconds | alarm_metrics, alarms

    def finish_board(self) -> None:
        """Wait for figures that are still being drawn."""
        self._board.finish()

    @counts_as("save")
    def checkpoint(self, *, due: bool = True) -> None:
        """Save the run's state, where one is ``due`` (``save_checkpoint``)."""
        if self._stream is not None:
            self._stream.updated()
        if not due and not self._is_saved(self.state.iteration):
            write_results(self.context.run_dir, self.state)
            return
        forget = partial(self._played.forget, self.state.iteration)
        self._save(partial(save_checkpoint, self.context.run_dir, self.state, self.config.kept_checkpoints, forget))

    def finish_checkpoint(self) -> None:
        """Wait for the checkpoint that is written beside training, the last one."""
        state, forget = self.state, partial(self._played.forget, self.state.iteration)
        given_up = False

        def finish() -> None:
            nonlocal given_up
            if given_up:
                write_checkpoint(self.context.run_dir, state, self.config.kept_checkpoints, forget, results=False)
            given_up = True
            finish_checkpoint(state)

        self._save(finish)

    def _save(self, save: Callable[[], None]) -> None:
        """Save; where a process that writes is lost, the learner replaces it and this is done again."""
        losses = 0
        while True:
            try:
                save()
            except LearnerLost:
                losses += 1
                if losses == MAX_DEATHS or not self.learner.recover():
                    raise
            else:
                return

    @counts_as("watch")
    def _frozen(self, record: Record | None) -> Frozen | None:
        """Return the board's data of a snapshot beside its metrics; before the first iteration there is no conduct."""
        measured = self._snapshots.measured
        if measured is None:
            return None
        conducts = (
            observe_conduct(record.learned.trajectories, record.learned.advantages, self.context.roles)
            if record is not None
            else []
        )
        comparisons = compare_population(self.context, self.state, measured)
        return Frozen(measured, comparisons, conducts)

    def _save_samples(self, record: Record) -> list[SampledMatch]:
        """Save some of an iteration's matches of each game, for people to read, and return them."""
        per_game = -(-self.config.episodes_kept // len(self.context.specs))
        learned = record.learned
        of_turns = learned.trajectories, learned.advantages
        samples = sample_matches(record.episodes, *of_turns, record.iteration, per_game, learned.selections)
        save_samples(self.context.run_dir, record.iteration, samples)
        return samples
