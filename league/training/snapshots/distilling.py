"""The distilled snapshots of a run (``distil_every``): one model in place of the mixture, beside the population.

They are not opponents and nothing is trained from them, so a run learns the same with or without them.
"""

from __future__ import annotations

from games.common.seeds import derive_seed
from league.config.context import RunContext
from league.population.distillation.distil import MIXTURE, distil
from league.population.distillation.folder import freeze
from league.population.players.engines import Engines
from league.population.storage.population import Population
from league.population.storage.run_dir import DISTILLED, Run


def distil_if_due(context: RunContext, iteration: int) -> dict[str, float]:
    """Distil the last published mixture into a snapshot, if one is due; return its metrics."""
    config = context.config
    if not config.distil_every or not iteration or iteration % config.distil_every:
        return {}
    run = Run(context.run_dir)
    with Engines() as engines:
        distilled = distil(run, MIXTURE, engines, derive_seed(config.seed, "distil", iteration))
    freeze(Population(context.run_dir / DISTILLED), distilled, "the mixture", step=iteration)
    metrics: dict[str, float] = {}
    for result in distilled.games:
        metrics[f"{result.game}/distilled_kl"] = result.kl_after
        if result.worth is not None:
            metrics[f"{result.game}/distilled_{result.worth.kind}"] = result.worth.after
    return metrics
