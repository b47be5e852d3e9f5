"""A training session: opens or resumes a run directory, holds its lock, and trains."""

from __future__ import annotations

import json
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from arena.remote.usage import Usage
from games.errors import UsageError
from games.files import atomic_write, is_leftover, remove_leftovers
from league.config import RunConfig
from league.decoupled import LearnerFailed
from league.engines import check_engine
from league.evaluation import try_out
from league.freezing import keep_beginnings
from league.interrupt import StopRequest
from league.learner_process import FAILED_BATCH_FILE
from league.lock import LOCK_FILE, run_lock
from league.player_engines import Engines
from league.population import Population
from league.prepared import prepared_process
from league.progress import Progress
from league.run_state import RunState, begin_state, finished_iterations, has_state, load_state, new_state
from league.settings import CONFIG_FILE, load, run_roles, to_toml
from league.start import Roles, policy_names, reopened_policies, start_policies
from league.train import League, run_loop
from league.venue import Site, ThisMachine, scripted_players
from learners.advantages import rule_named
from learners.learner import LearningError


class RunFailed(RuntimeError):
    """Training stopped on an update that must not be applied, or without a learner; the message says what to do."""


class Outcome(NamedTuple):
    """How a session ended."""

    run_dir: Path
    finished: bool  # False: it was asked to stop, and can be resumed
    iteration: int
    usage: dict[str, Usage]  # of players behind servers, by player, in this session


def train(config: RunConfig, run_dir: Path, cluster: str = "") -> Outcome:
    """Train a new run from its beginning, on the Ray cluster at an address if one is given.

    Raises UsageError if the directory is in use or already holds something, and RunFailed if an
    update is not finite or disagrees with the engine.
    """
    rule_named(config.credit.rule)
    with Engines() as engines:
        try_out(scripted_players(config, engines), run_roles(config))
    with _site(config, run_dir, cluster) as site, run_lock(run_dir), Engines() as engines:
        taken = sorted(path.name for path in run_dir.iterdir() if path.name != LOCK_FILE and not is_leftover(path))
        if taken:
            raise UsageError(
                f"{run_dir} is not empty (it holds {', '.join(taken[:3])}). Choose another --run-dir, or go on with "
                f"that run: league train --resume --run-dir {run_dir}"
            )
        steered = _steered(config, site)
        atomic_write(run_dir / CONFIG_FILE, to_toml(config))
        return _session(steered, run_dir, site, engines, resume=False)


def resume(run_dir: Path, cluster: str = "") -> Outcome:
    """Go on with a run where its last whole iteration ended, under its own configuration.

    Raises UsageError if there is no such run, or another process trains it; RunFailed as ``train``.
    """
    if not (run_dir / CONFIG_FILE).is_file():
        raise UsageError(f"{run_dir} holds no run to resume: it has no {CONFIG_FILE}. Name one with --run-dir.")
    config = load(str(run_dir / CONFIG_FILE))
    with _site(config, run_dir, cluster) as site, run_lock(run_dir), Engines() as engines:
        # Without a state, it died in its cold start.
        return _session(_steered(config, site), run_dir, site, engines, resume=has_state(run_dir))


def _site(config: RunConfig, run_dir: Path, cluster: str) -> Site:
    """Return what the session plays and learns with. Raises UsageError for a cluster where Ray is not installed."""
    if not cluster:
        return ThisMachine(config, run_dir)
    if find_spec("ray") is None:
        raise UsageError(
            f"--cluster {cluster} needs Ray, which is not installed. Install it (pip install 'llm-league[ray]'), or "
            "leave --cluster out."
        )
    from league.cluster import OnCluster  # Ray is slow to import, and only needed here

    return OnCluster(config, run_dir, cluster)


def _steered(config: RunConfig, site: Site) -> RunConfig:
    """Return the configuration of the process that steers. Raises UsageError if it could not play."""
    own = config.model_copy(update={"model": config.model.model_copy(update={"device": site.device})})
    check_engine(own, policy_names(own, run_roles(own)))
    return own


def _session(config: RunConfig, run_dir: Path, site: Site, engines: Engines, *, resume: bool) -> Outcome:
    remove_leftovers(run_dir)
    roles = run_roles(config)
    done = finished_iterations(run_dir) if resume else 0
    with (
        prepared_process(config.threads),
        Progress(list(config.games), config.iterations, done) as progress,
        StopRequest(lambda: progress.announce("stopping once this iteration is finished and saved")) as stop,
    ):
        state = _resumed(config, run_dir, roles) if resume else _begun(config, run_dir, roles, progress)
        try:
            venue = site.venue(config, run_dir, roles, state, engines)
            with closing(League(config, run_dir, roles, state, site.learner(state), venue)) as league:
                finished = run_loop(league, progress, stop)
                usage = engines.usage() | site.usage()
        except LearningError as error:
            path = run_dir / FAILED_BATCH_FILE
            atomic_write(path, json.dumps(error.batch._asdict(), indent=1))
            raise RunFailed(f"{error} The batch is in {path}.") from error
        except LearnerFailed as error:
            raise RunFailed(str(error)) from error
        finally:
            state.store.close()
    return Outcome(run_dir, finished, state.iteration, usage)


def _begun(config: RunConfig, run_dir: Path, roles: Roles, progress: Progress) -> RunState:
    """Return the state of a new run, its policies ready for their first match."""
    pocket = config.model.source == "pocket"
    progress.doing("cold start: learning what legal replies look like" if pocket else f"loading {config.model.source}")
    begin_state(run_dir)
    policies = start_policies(config, roles, run_dir)
    keep_beginnings(run_dir, [policies[name] for name in config.exploiter_kinds])
    return new_state(config, run_dir, policies)


def _resumed(config: RunConfig, run_dir: Path, roles: Roles) -> RunState:
    """Return the newest saved state."""
    policies = reopened_policies(config, roles, run_dir, Population(run_dir / "population"))
    return load_state(config, run_dir, policies)
