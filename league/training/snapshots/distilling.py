"""The distilled snapshots of a run (``distil_every``): one model in place of the mixture, beside the population.

They are not opponents and nothing is trained from them, so a run learns the same with or without them.

With ``distil.in_place`` there are none beside the population: the policies in training become the average. In a
zero-sum game self-play circles its equilibrium, and its average over time is what nears it (Brown 1951; Heinrich,
Lanctot and Silver 2015, "Fictitious self-play in extensive-form games"); a learner that begins again from its average
comes nearer by a constant factor each time (Applegate, Hinder, Lu and Lubin 2023, "Faster first-order primal-dual
methods for linear programming using restarts and sharpness").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from games.common.seeds import derive_seed
from games.spec import GameSpec
from league.config import RunConfig
from league.config.context import RunContext
from league.population.distillation.distil import MIXTURE, distil
from league.population.distillation.folder import freeze
from league.population.distillation.students import Taught, mean_kl, teach
from league.population.distillation.targets import Target, exact_targets
from league.population.players.engines import Engines
from league.population.storage.population import Origin, Population
from league.population.storage.run_dir import DISTILLED, Run
from league.theory.exact.exploitability import exploitability
from league.training.checkpoints.run_state import Beginning, RunState
from league.training.snapshots.exploiter_cycle import reset_weights
from league.training.snapshots.measure import AveragePlay
from learners.update.policy import Policy


def distil_if_due(context: RunContext, iteration: int) -> dict[str, float]:
    """Distil the last published mixture into a snapshot, if one is due; return its metrics."""
    config = context.config
    if config.distil.in_place or not _is_due(config, iteration):
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


def distil_in_place_if_due(
    context: RunContext, state: RunState, average_play: Callable[[GameSpec], AveragePlay | None], iteration: int
) -> dict[str, float]:
    """Teach the policies in training the average of their play, if that is due or a run ends; return its metrics.

    Games in which ``average_play`` knows none are not taught. A policy that was taught forgets its optimiser's state;
    one that lessons brought no nearer to the average keeps its weights.
    """
    config = context.config
    ends = bool(config.distil_every) and iteration == config.iterations
    if not config.distil.in_place or not (ends or _is_due(config, iteration)):
        return {}
    averages = {game: average for game, spec in context.specs.items() if (average := average_play(spec)) is not None}
    if not any(average.weights for average in averages.values()):
        return {}
    targets = {game: exact_targets(average.player, average.table) for game, average in averages.items()}
    everything = [target for its_targets in targets.values() for target in its_targets]
    students = {
        name: Taught(
            Policy(name, state.policies[name].lm.copy(), weight_decay=0.0, magnet=False),
            state.population.newest(name),
            _members(state, averages, name),
        )
        for name in sorted({target.policy for target in everything})
        if not config.policy(name).frozen
    }
    before = _kl(config, students, targets)
    for name, student in students.items():
        teach(config, student, everything, derive_seed(config.seed, "distil", iteration, name), lambda *_: None)
    after = _kl(config, students, targets)
    if sum(after.values()) >= sum(before.values()):  # they played as the average already
        for student in students.values():
            student.policy.lm.release()
        return {f"{game}/distilled_kl": kl for game, kl in before.items()}
    how = ", ".join(_in_words(context, average, before[game], after[game]) for game, average in averages.items())
    for name, student in students.items():
        reset_weights(state, name, {key: weight.detach() for key, weight in student.policy.parameters.items()})
        student.policy.lm.release()
        state.origins[name] = Beginning(Origin.DISTILLED, None, student.parents, f"trained, then the mixture: {how}")
    return {f"{game}/distilled_kl": kl for game, kl in after.items()}


def _is_due(config: RunConfig, iteration: int) -> bool:
    return bool(config.distil_every and iteration and iteration % config.distil_every == 0)


def _members(state: RunState, averages: Mapping[str, AveragePlay], policy: str) -> tuple[str, ...]:
    """Return the snapshots of a policy that have weight in any of these mixtures, the oldest first."""
    weights = [by_player for average in averages.values() for by_player in average.weights]
    snapshots = [snapshot.id for snapshot in state.population.all(policy)]
    return tuple(one for one in snapshots if any(by_player.get(one, 0.0) > 1e-9 for by_player in weights))


def _kl(config: RunConfig, students: Mapping[str, Taught], targets: Mapping[str, Sequence[Target]]) -> dict[str, float]:
    """Return each game's KL of the targets to the policies, nats a situation."""
    return {game: mean_kl(config, students, its_targets) for game, its_targets in targets.items()}


def _in_words(context: RunContext, average: AveragePlay, before: float, after: float) -> str:
    game, words = average.player.spec.name, f"KL {before:.3g} to {after:.3g}"
    if not average.weights:
        return f"{game} {words}"
    seats = [role.seat for role in context.roles[game] if not role.fixed]
    own, mixed = (exploitability(table, seats) for table in (average.own, average.table))
    return f"{game} {words}, exploitability {own:.3f}, the mixture's {mixed:.3f}"
