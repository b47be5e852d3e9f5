"""Estimators' values for the turns of batches, after learning from other matches of the same policy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from games.registry import make_game
from league.lab.credit.matches import BatchPlan, PlayedBatch, TablePlayer, play_batches
from league.lab.credit.rules import RuleVariant
from league.theory.exact.exploitability import PolicyTable
from league.theory.exact.states import Key
from learners.trajectories import Evidence, Trajectory, return_scale
from learners.values import ESTIMATORS, with_estimates
from learners.values.continuations import plays
from learners.values.estimator import Simulator
from roles.role import Role


class LearnedEvidence:
    """Estimators that have learned from ``plan.learned`` matches, which are played when the first one is used."""

    def __init__(self, table: PolicyTable, roles: tuple[Role, ...], keys: Sequence[Key], plan: BatchPlan) -> None:
        self._table, self._roles, self._keys, self._plan = table, roles, keys, plan

    def of(self, variant: RuleVariant, batches: Sequence[PlayedBatch]) -> list[list[Evidence]]:
        """Return the evidence of each batch's trajectories."""
        name, settings = variant.estimator, variant.estimator_settings
        assert name is not None
        estimator = ESTIMATORS[name]
        if estimator.learn is None:
            inputs = [(batch.trajectories, self._simulator(batch), settings) for batch in batches]
            estimates = [estimator.make(*arguments)[estimator.kind] for arguments in inputs]
        else:
            state = estimator.learn(self._matches, {}, settings)
            estimates = [estimator.make(batch.trajectories, state, settings) for batch in batches]
        return [[with_estimates(Evidence(), name, numbers) for numbers in rows] for rows in estimates]

    @cached_property
    def _matches(self) -> list[Trajectory]:
        """The trajectories of the matches to learn from; no two matches have the same index."""
        batches = play_batches(self._table, self._roles, self._keys, self._plan.to_learn)
        return [trajectory for batch in batches for trajectory in batch.trajectories]

    def _simulator(self, batch: PlayedBatch) -> Simulator:
        """Return the simulator that continues a batch's matches; exact advantages have their own row."""
        engine, game = TablePlayer(self._table), self._table.game
        episodes = {episode.request.index: episode for episode in batch.episodes}
        scales = {game: return_scale(make_game(game).spec)}
        play = plays(self._roles, lambda _: engine)
        return Simulator(episodes, play, scales, lambda _purpose: self._plan.seed, lambda _trajectories: [])
