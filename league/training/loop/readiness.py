"""Whether a new run can start, as far as that is known without torch, which takes seconds to import."""

from __future__ import annotations

from arena.gpus import may_have_gpu
from league.config import RunConfig
from league.config.load import policy_names, run_roles
from league.population.players.engines import Engines
from league.population.players.fixed import check_fixed, with_lasting_names
from league.population.players.hub import check_model
from league.population.players.machine import check_cluster_plays, check_processes, no_gpu
from league.population.players.model_engine import require_engine_package
from league.population.players.outside import check_players, scripted_only
from league.training.board.loggers import check_loggers


def check_start(config: RunConfig, cluster: str) -> None:
    """Raise UsageError, with what would work, for a new run that could not start here, or on the Ray ``cluster``."""
    names = [*config.evaluation.anchors, *config.matchmaking.guests, *config.curriculum.controls]
    roles = run_roles(config)
    check_players(scripted_only(names), roles)
    with Engines() as engines:
        check_fixed(run_roles(with_lasting_names(config)), engines, ask_servers=False)
    check_loggers(config.board.loggers)
    if cluster:
        check_cluster_plays(config, cluster)
        return
    check_processes(config, roles)
    require_engine_package(config)
    for policy in policy_names(config, roles):
        model, where = config.model_of(policy), f"policies.{policy}.model" if config.policy(policy).model else "model"
        if model.device.startswith("cuda") and not may_have_gpu():
            raise no_gpu(where, model.device)
        if model.source != "pocket":
            check_model(model.source, f"{where}.source = {model.source!r}")
