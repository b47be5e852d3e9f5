"""The opponents of a learner: pools of past players by seat, and line-ups sampled from them.

Sampling is systematic (``systematic_sample``), so the expected share of player B in a rule's matches is exactly P(B).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.config.learning import DEFAULT_LEAGUE_ROLE
from league.config.matchmaking import ExploitersConfig, MatchmakingConfig
from league.population.matchmaking.league_roles import LEAGUE_ROLES, is_main
from league.population.matchmaking.opponent_pool import OpponentPool, systematic_sample
from league.population.matchmaking.rules import JOINT, OPPONENT_RULES
from league.population.results.payoffs import PairRecord
from league.population.storage.members import Member, MetaStrategy

Lineup = tuple[str, ...]  # player by seat; the learner's seat is not read  # [seats]


class DrawContext(NamedTuple):
    """What a draw in one game reads of the league."""

    game: str
    seat_policies: tuple[str, ...]  # the live main policy bound to each seat, or its fixed player  # [seats]
    population: Sequence[Member]  # snapshots, oldest first, and guests
    pair_record: Callable[[str, str, str], PairRecord]  # of (player, opponent, game)
    meta: MetaStrategy = MetaStrategy()
    fixed: frozenset[str] = frozenset()  # of ``seat_policies``: fixed players, which keep their seats

    @property
    def free_seats(self) -> list[int]:
        """Return the seats without a fixed player."""
        return [seat for seat, policy in enumerate(self.seat_policies) if policy not in self.fixed]


class LineupSampler:
    """Samples line-ups for the learners of one game and iteration."""

    def __init__(self, context: DrawContext, config: MatchmakingConfig, rng: np.random.Generator) -> None:
        self.context, self._config, self.rng = context, config, rng
        self._pools = {policy: self._pool(policy) for policy in sorted(set(context.seat_policies) - context.fixed)}
        self._weights: dict[str, dict[str, NDArray[np.float64]]] = {}

    @property
    def policies(self) -> int:
        """Return how many policies have seats, each with its own pool of opponents; fixed players have none."""
        return len(self._pools)

    def has_opponents(self, rule: str) -> bool:
        """Return whether a rule has an opponent for every seat."""
        if JOINT in OPPONENT_RULES[rule].needs:
            return bool(self.context.meta.joint)
        every_seat = all(pool.players for pool in self._pools.values())
        return every_seat and all(weights.any() for weights in self._probabilities(rule).values())

    def for_main(self, rule: str, learners: Sequence[int], deals: int, size: int) -> dict[int, list[Lineup]]:
        """Return, by learner's seat, a line-up for each deal, from ``size`` draws a policy."""
        entry = OPPONENT_RULES[rule]
        if JOINT in entry.needs:
            drawn = {seat: entry.make(self.context.meta, seat, size, self.rng) for seat in learners}
            return {seat: [lineups[deal % size] for deal in range(deals)] for seat, lineups in drawn.items()}
        samples = {
            policy: self._sample(self._pools[policy], weights, size)
            for policy, weights in self._probabilities(rule).items()
        }
        return self._lineups(samples, learners, deals)

    def for_each_seat(
        self, policy: str, league_role: str, config: ExploitersConfig, deals: int, size: int
    ) -> dict[int, list[Lineup]]:
        """Return, by the seat of a policy that takes each in turn, a line-up for each deal."""
        opponents, samples = LEAGUE_ROLES[league_role].make, {}
        for main, pool in self._pools.items():
            targets = replace(
                pool,
                players=[main, *pool.players],
                learners=(policy,),
                kinds=[DEFAULT_LEAGUE_ROLE, *pool.kinds],
                policies=[main, *pool.policies],
            )
            samples[main] = self._sample(targets, opponents(targets, config), size)
        return self._lineups(samples, self.context.free_seats, deals)

    def for_all_seats(
        self, policy: str, league_role: str, config: ExploitersConfig, deals: int, size: int
    ) -> dict[int, list[Lineup]]:
        """Return, by the seat of a policy that takes all, a line-up for each deal; none if it meets nobody."""
        others = [member for member in self.context.population if member.policy != policy]
        if not (others and deals):
            return {}
        ids, kinds, policies = ([getattr(m, name) for m in others] for name in ("id", "kind", "policy"))
        context = self.context
        pool = OpponentPool(ids, (policy,), context.game, context.pair_record, self._config, kinds, policies=policies)
        weights = LEAGUE_ROLES[league_role].make(pool, config)
        if not weights.any():
            return {}
        drawn = self._sample(pool, weights, size)
        return self._lineups(dict.fromkeys(self._pools, drawn), context.free_seats, deals)

    def _probabilities(self, rule: str) -> dict[str, NDArray[np.float64]]:
        """Return a rule's probabilities by policy, computed once."""
        if rule not in self._weights:
            weigh = OPPONENT_RULES[rule].make
            self._weights[rule] = {policy: weigh(pool) for policy, pool in self._pools.items()}
        return self._weights[rule]

    def _sample(self, pool: OpponentPool, weights: NDArray[np.float64], size: int) -> list[str]:
        """Draw ``size`` players of a pool by their weights."""
        return [pool.players[index] for index in systematic_sample(weights, size, self.rng)]

    def _lineups(
        self, samples: Mapping[str, Sequence[str]], learners: Sequence[int], deals: int
    ) -> dict[int, list[Lineup]]:
        """Return line-ups by learner and deal; the seats after the learner's take successive players of a sample.

        The next deal starts one player later, so that the players of a sample take turns in each seat.
        """
        policies = self.context.seat_policies
        seats = len(policies)
        drawn = {player: [player] for player in self.context.fixed} | dict(samples)
        return {
            learner: [
                tuple(
                    drawn[policies[seat]][(deal + (seat - learner) % seats - 1) % len(drawn[policies[seat]])]
                    for seat in range(seats)
                )
                for deal in range(deals)
            ]
            for learner in learners
        }

    def _pool(self, policy: str) -> OpponentPool:
        """Return the past players that may take a seat of ``policy``: its own, and those that take any seat."""
        context = self.context
        members = [member for member in context.population if member.policy == policy or not is_main(member.kind)]
        return OpponentPool(
            [member.id for member in members],
            _learners(policy, context),
            context.game,
            context.pair_record,
            self._config,
            [member.kind for member in members],
            context.meta.weights,
            [member.policy for member in members],
        )


def _learners(policy: str, context: DrawContext) -> tuple[str, ...]:
    """Return the live policies, sorted, that may meet a player in a seat of ``policy``."""
    policies = context.seat_policies
    seats = [seat for seat, seat_policy in enumerate(policies) if seat_policy == policy]
    met = {learner for seat in seats for learner in policies[:seat] + policies[seat + 1 :]}
    return tuple(sorted(met - context.fixed))
