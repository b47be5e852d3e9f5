"""What turns were worth by estimators that play on: an iteration's matches are taken up again from their middles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arena.records import Episode, flatten_episodes
from games.common.seeds import derive_seed
from league.config.context import RunContext
from league.training.evidence.alternatives import TriedAlternatives
from league.training.evidence.continuations import Continuations, ContinuationValues
from league.training.evidence.counted_out import count_out
from league.training.evidence.influence import Answers
from league.training.evidence.turn_values import asked_of
from league.training.interfaces import RolloutBackend
from learners.trajectories import Trajectory
from learners.values import ALTERNATIVES, CONTINUATIONS
from learners.values.estimator import Estimates


class PlayedOn(NamedTuple):
    """What the estimators that play on found; by index of the trajectory, those of other estimators left out."""

    values: dict[int, tuple[float, ...]]  # of ``continuations``  # [K]
    contributions: dict[int, tuple[float, ...]]  # of ``alternatives`` and ``exact``  # [K]
    reply_credits: dict[int, tuple[tuple[float, ...], ...]]  # of ``exact``, where it credits all replies  # [K][A]
    answers: dict[int, list[Answers]]  # of ``alternatives``  # [K][1 + count]


def play_on(
    context: RunContext,
    rollouts: RolloutBackend,
    iteration: int,
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
) -> PlayedOn:
    """Return what turns were worth, with the weights that play now, where an estimator plays on or counts out."""
    config, scales = context.config, context.scales
    by_index = {episode.request.index: episode for episode in flatten_episodes(episodes)}
    asked = [asked_of(config, t.game, t.role) for t in trajectories]
    continued, tried = ([i for i, name in enumerate(asked) if name == known] for known in (CONTINUATIONS, ALTERNATIVES))
    values: Estimates = []
    if continued:
        seed = derive_seed(config.seed, "continued", iteration)
        continuations = Continuations(rollouts.play, config.values.continuations.count, seed)
        estimator = ContinuationValues(continuations, by_index, scales)
        values = estimator.estimate([trajectories[i] for i in continued])
    counted = count_out(context, rollouts.engine, episodes, trajectories)
    found = PlayedOn(
        values=dict(zip(continued, values, strict=True)),
        contributions={i: worth.advantages for i, worth in counted.items()},
        reply_credits={i: w.reply_credits for i, w in counted.items()} if config.values.exact.all_replies else {},
        answers={},
    )
    if tried:
        settings, seed = config.values.alternatives, derive_seed(config.seed, "alternatives", iteration)
        others = TriedAlternatives(rollouts.play, settings.count, settings.said, by_index, scales, seed)
        contributions, answers = others.estimate([trajectories[i] for i in tried])
        found.contributions.update(zip(tried, contributions, strict=True))
        found.answers.update(zip(tried, answers, strict=True))
    return found
