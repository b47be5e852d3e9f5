"""A training session: opens or resumes a run directory, holds its lock, and trains."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from arena.lm.finite import NotFinite
from arena.process import tuned_process
from arena.programs.sampler import Program
from arena.remote.usage import Usage
from games.aliases import short_metric
from games.common.errors import UsageError
from games.common.files import atomic_write, remove_leftovers
from league.config import CONFIG_FILE, RunConfig
from league.config.checks.config import check_share_of_matches
from league.config.context import RunContext, run_context
from league.config.load import load_run_config, write_run_config
from league.population.players.engines import Engines
from league.population.players.fixed import check_fixed, with_lasting_names
from league.population.players.machine import check_cluster_plays, require_ray
from league.population.players.model_engine import check_engine, check_model
from league.population.players.outside import anchors_and_guests, check_players
from league.population.storage.identity import check_cards
from league.population.storage.lock import run_lock
from league.population.storage.run_dir import check_unused
from league.population.storage.sampled_matches import SampledMatch
from league.training.backends.local import LocalDeployment
from league.training.board.loggers import open_loggers
from league.training.board.metrics_log import read_metrics
from league.training.board.settings import flat_settings
from league.training.checkpoints.checkpoint import clear_state, finished_iterations, has_checkpoint, load_checkpoint
from league.training.checkpoints.run_state import RunState, new_state
from league.training.evidence.exact_advantages import check_exact
from league.training.evidence.preferences import Judges
from league.training.evidence.teacher_names import with_lasting_judge, with_lasting_teachers
from league.training.evidence.teachers import Teachers
from league.training.interfaces import Deployment, LearnerFailed, LearnerLost
from league.training.learning.imitation import imitated_replies, keep_matches, matches_to_imitate
from league.training.learning.learner_process import FAILED_BATCH_FILE, learners_of
from league.training.learning.policies import policies_for_resume, start_policies
from league.training.learning.starts import first_starts
from league.training.loop.failures import (
    LearningFailed,
    RunFailed,
    telling_of_a_full_disk,
    telling_of_a_moved_run,
    telling_of_memory,
)
from league.training.loop.interrupt import StopRequest
from league.training.loop.loop import League, Services, run_loop
from league.training.loop.recovery import check_never_trained, check_state, go_back, telling_what_to_do
from league.training.monitors.live_view import LiveView
from league.training.snapshots.exploiter_cycle import check_initial_weights, save_initial_weights
from league.training.snapshots.judged_games import budget
from learners.advantages import RULES
from learners.update.learner import LearningError


class Outcome(NamedTuple):
    """How a session ended."""

    run_dir: Path
    finished: bool  # False: stopped by a signal, and can be resumed
    iteration: int  # the last one
    usage: dict[str, Usage]  # in this session, by player behind a server


# Called with the number and the metrics of each iteration, 0 for the measurements before the first. If it returns
# True, the run stops when that iteration is saved.
Watch = Callable[[int, Mapping[str, float]], object]


def train(
    config: RunConfig,
    run_dir: Path,
    cluster: str = "",
    watch: Watch | None = None,
    program: Program | None = None,
) -> Outcome:
    """Train a new run, on this machine or on the Ray cluster at the address ``cluster``.

    A ``program`` takes the turns of the roles in ``programs.roles``, in place of outside programs.

    Raises UsageError if the directory is in use or not empty, and RunFailed if an update or a policy's weights are not
    finite, its log-probs disagree with the engine's, a learner dies, or the disk is full.
    """
    RULES[config.credit.rule]
    context = run_context(with_lasting_names(config), run_dir)  # a fixed role has its player's name, so names first
    check_share_of_matches(context.config, context.roles)
    check_exact(context)
    context = with_lasting_judge(with_lasting_teachers(context))
    with Engines() as engines:
        check_players(anchors_and_guests(context.config, engines), context.roles)
        check_fixed(context.roles, engines)
        Teachers(context, engines, {})
        Judges(context, engines)
    imitated = matches_to_imitate(context)
    with (
        telling_of_a_full_disk(run_dir),
        telling_what_to_do(run_dir),
        _Session(context, cluster, watch, program, new=True) as session,
    ):
        session.write_config(imitated)
        try:
            session.open_loggers()
            state = session.first_state()
            session.open_teachers(state)
        except UsageError:  # discovered only now, such as a file that is not a model: nothing of the run is left
            session.discard()
            raise
        return session.run(state)


def resume(
    run_dir: Path,
    cluster: str = "",
    from_iteration: int | None = None,
    watch: Watch | None = None,
    program: Program | None = None,
    address: Mapping[str, Any] | None = None,
) -> Outcome:
    """Resume a run from its newest checkpoint, or from an iteration's, with its own configuration.

    ``program`` as in ``train``; ``address`` may replace the run's ``host``, ``port`` and ``allow_hosts``.

    Raises UsageError if there is no such run, another process trains it or its state is damaged, and RunFailed as
    ``train``.
    """
    if not (run_dir / CONFIG_FILE).is_file():
        raise UsageError(f"{run_dir} holds no run to resume: it has no {CONFIG_FILE}. Name one with --run-dir.")
    config = load_run_config(run_dir)
    config = config.model_copy(update={"programs": config.programs.model_copy(update=address or {})})
    context = run_context(config, run_dir)
    with (
        telling_of_a_full_disk(run_dir),
        telling_what_to_do(run_dir),
        _Session(context, cluster, watch, program) as session,
    ):
        notes = [] if from_iteration is None else go_back(run_dir, from_iteration)
        if not has_checkpoint(run_dir):  # it was killed during its cold start
            check_never_trained(run_dir)
            session.start_view()
            session.open_loggers()
            return session.run(session.first_state())
        check_state(run_dir)
        session.start_view(notes)
        session.open_loggers()
        check_initial_weights(context)
        policies = policies_for_resume(session.context)
        apart = learners_of(context) if cluster else {}
        learned_elsewhere = {name for names in apart.values() for name in names}
        for name, policy in policies.items():  # shards, or learners on a cluster, will hold what optimisers keep
            policy.plays = name in learned_elsewhere if cluster else session.context.config.optimizer.sharded
        state = load_checkpoint(session.context.config, run_dir, policies)
        check_cards(context.roles, state.population.all())
        return session.run(state)


class _Session:
    """The resources of a process that trains a run: the deployment, the run's lock, engines, and the live view.

    ``context`` has the driver's devices: with a cluster, they may differ from the workers'.
    """

    def __init__(
        self,
        context: RunContext,
        cluster: str,
        watch: Watch | None,
        program: Program | None,
        *,
        new: bool = False,
    ) -> None:
        self.context, self._config, self._run_dir = context, context.config, context.run_dir
        self._cluster, self._new, self._watch = cluster, new, watch
        self._program = program
        self._teachers: Teachers | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:  # the deployment first: its processes must inherit no lock, thread or view
            self._deployment = stack.enter_context(_deployment(self.context, self._cluster, self._program))
            self.context = _on_driver(self.context, self._deployment)
            if self._new:  # after checking the machine, because a hub may be slow, and before there is a folder
                check_model(self.context)
            stack.enter_context(run_lock(self._run_dir))
            self._engines = stack.enter_context(Engines())
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def write_config(self, imitated: Sequence[SampledMatch]) -> None:
        """Write the configuration of a new run into the folder, and the matches that it imitates.

        Raises UsageError if the folder is not empty.
        """
        check_unused(self._run_dir)
        keep_matches(self._run_dir, imitated)
        write_run_config(self._run_dir, self._config)
        self.start_view([budget(self.context)] if self._config.curriculum.matches else [])

    def discard(self) -> None:
        """Remove a run that could not start: the folder, which was empty before ``write_config``, and its lock."""
        shutil.rmtree(self._run_dir, ignore_errors=True)

    def start_view(self, notes: Sequence[str] = ()) -> None:
        """Remove leftovers of killed processes, tune this one, start the live view with notes, and catch Ctrl-C."""
        remove_leftovers(self._run_dir)
        done = finished_iterations(self._run_dir)
        before = [metrics for metrics in read_metrics(self._run_dir) if metrics["iteration"] <= done]
        enter = self._stack.enter_context
        enter(tuned_process(self._config.threads))
        self._view = enter(
            LiveView(list(self._config.games), self._config.iterations, done, before, on_update=self._tell)
        )
        for note in notes:
            self._view.print_line(note)
        message = "stopping once this iteration is finished and saved"
        if self._config.programs.roles and self._program is None:
            message += (
                f", for which programs still have to play {' and '.join(self._config.programs.roles)}; Ctrl-C "
                "again stops at once and loses this iteration"
            )
        self._stop = enter(StopRequest(lambda: self._view.announce(message)))

    def open_loggers(self) -> None:
        """Open the services that get the run's metrics, before anything slow.

        Raises UsageError, with what to do, for one that cannot be opened.
        """
        done = finished_iterations(self._run_dir)
        names = self._config.board.loggers

        def earlier() -> Iterator[dict[str, float]]:
            for line in read_metrics(self._run_dir):
                if line["iteration"] <= done:
                    yield {short_metric(name): value for name, value in line.items()}

        settings = flat_settings(self._config)
        self._loggers = open_loggers(names, self._run_dir, settings, earlier, self._view.print_line)

    def _tell(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Call ``watch`` with an iteration, and stop the run if it returns True."""
        if self._watch is not None and self._watch(iteration, metrics) is True:
            self._stop.requested = True

    def first_state(self) -> RunState:
        """Return the state of a new run, its policies ready for their first match."""
        context, config = self.context, self.context.config
        pretrained = config.pretrained(context.policies)
        cold_start = "cold start: learning what legal replies look like"
        self._view.set_activity(f"loading {' and '.join(pretrained)}" if pretrained else cold_start)
        clear_state(self._run_dir)
        policies = start_policies(context)
        save_initial_weights(self._run_dir, [policies[name] for name in config.league_roles])
        state = new_state(config, self._run_dir, policies, roles=context.roles)
        if state.starts is not None:
            state.starts.add(first_starts(context))
        return state

    def open_teachers(self, state: RunState) -> Teachers:
        """Return the run's teachers. Raises UsageError, with the role named, for one that cannot teach it."""
        if self._teachers is None:
            self._teachers = Teachers(self.context, self._engines, state.policies)
        return self._teachers

    def run(self, state: RunState) -> Outcome:
        """Train from a state to the run's end or an interrupt. Raises RunFailed, with what to do."""
        context, run_dir, deployment = self.context, self._run_dir, self._deployment
        state.imitated = imitated_replies(context, state.policies)
        teachers, judges = self.open_teachers(state), Judges(context, self._engines)
        try:
            rollouts = deployment.rollouts(context, state, self._engines)
            for note in rollouts.notes:
                self._view.print_line(note)
            learner = deployment.learner(state)
            services = Services(learner, rollouts, self._view, teachers, judges, self._loggers)
            with (
                telling_of_a_moved_run(run_dir),
                telling_of_memory(context.config, run_dir, state.policies),
                closing(League(context, state, services)) as league,
            ):
                finished = run_loop(league, self._stop)
                usage = self._engines.usage() | deployment.usage()
        except LearningError as error:
            path = run_dir / FAILED_BATCH_FILE
            atomic_write(path, json.dumps(error.batch._asdict(), indent=1))
            raise LearningFailed(f"{error} The batch is in {path}.") from error
        except LearnerLost as error:
            raise RunFailed(str(error)) from error
        except (LearnerFailed, NotFinite) as error:
            raise LearningFailed(str(error)) from error
        finally:
            state.close()
        return Outcome(run_dir, finished, state.iteration, usage)


def _deployment(context: RunContext, cluster: str, program: Program | None) -> Deployment:
    """Return where the session plays and learns. Raises UsageError for a cluster where Ray is not installed."""
    if not cluster:
        return LocalDeployment(context, program)
    check_cluster_plays(context.config, cluster)
    require_ray(cluster)
    from league.training.backends.cluster import ClusterDeployment  # imported here because Ray is slow to import

    return ClusterDeployment(context, cluster)


def _on_driver(context: RunContext, deployment: Deployment) -> RunContext:
    """Return the run on the devices of the driver process. Raises UsageError if its engine could not play."""
    if deployment.on_cpu:
        context = replace(context, config=context.config.on_devices(lambda _: "cpu"))
    check_engine(context.config, context.policies)
    return context
