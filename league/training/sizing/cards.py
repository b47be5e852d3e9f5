"""How a run divides cards: which play, which learn, and how many an engine has together."""

from __future__ import annotations

from league.config import RunConfig
from league.population.players.model_engine import ServerSpread, engine_kind


def split(config: RunConfig, count: int) -> tuple[int, int, bool]:
    """Return how many cards play and learn, and whether each does both.

    As the cluster's tables divide them, or servers of several cards and the processes of an update, in proportion;
    otherwise the first card plays and all learn. Where a trainer elsewhere learns, all play; where servers of others
    play, all learn.
    """
    cluster, processes, spread = config.cluster, config.optimizer.processes, spread_of(config)
    each = spread.cards
    if on_cluster(config):
        engines = (cluster.engines or cluster.workers) * cluster.engine_gpus
        learners = groups(config) * processes * cluster.learner_gpus
    else:
        engines, learners = spread.started * each, float(groups(config) * processes)
    if not config.trainer.learns_here:
        return (count if engines else 0 if spread.given else 1), 0, not on_cluster(config)
    if spread.given and not on_cluster(config):
        return 0, min(processes, count), False
    if not engines:
        return 1, min(processes, count), True
    if count <= each or not learners or (on_cluster(config) and cluster.placement == "shared"):
        return count, count, True
    playing = max(round(count * engines / (engines + learners) / each), 1) * each
    playing -= each if playing >= count else 0
    return playing, count - playing, False


def spread_of(config: RunConfig) -> ServerSpread:
    """Return how the engine is spread over servers and cards."""
    kind = engine_kind(config)
    return ServerSpread() if kind.spread is None else kind.spread(config)


def on_cluster(config: RunConfig) -> bool:
    """Return whether the cluster's tables give GPUs to engines."""
    return bool(config.cluster.engine_gpus)


def trained(config: RunConfig) -> list[str]:
    """Return the policies that learn."""
    return [name for name in config.policies if not config.policy(name).frozen] or ["main"]


def groups(config: RunConfig) -> int:
    """Return how many learners there are, each of ``optimizer.processes`` processes: policies may learn apart."""
    apart = config.async_learners.processes
    return len(apart) if isinstance(apart, dict) else len(trained(config)) if apart == "each" else 1
