"""Who sits across from a learner: the pools of past players by seat, and line-ups drawn from them.

Opponents are drawn by systematic sampling (Madow 1949): player B is expected in exactly P(B) of a
rule's matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.config_matchmaking import ExploitersConfig, MatchmakingConfig
from league.matchmaking.fictitious import fictitious
from league.matchmaking.jpsro import jpsro
from league.matchmaking.league_exploiter import league_exploiter
from league.matchmaking.main_exploiter import main_exploiter
from league.matchmaking.pfsp import pfsp
from league.matchmaking.pool import Kind, Member, Meta, OpponentPool
from league.matchmaking.psro import psro
from league.matchmaking.uncertain import uncertain
from league.matchmaking.verification import verification
from league.payoffs import Known

PAST_RULES: dict[str, Callable[[OpponentPool], NDArray[np.float64]]] = {
    "fictitious": fictitious,
    "pfsp": pfsp,
    "verification": verification,
    "uncertain": uncertain,
    "psro": psro,
}
JOINT_RULES = ("jpsro",)  # these draw whole line-ups
"""The rules for past opponents of main policies, by the name of their weight."""

Lineup = tuple[str, ...]  # player by seat; the learner's own seat is not read  # [seats]


class Scene(NamedTuple):
    """What a draw in one game reads of the league."""

    game: str
    live: tuple[str, ...]  # the main policy bound to each seat  # [seats]
    population: Sequence[Member]  # snapshots, oldest first, and guests
    known: Callable[[str, str, str], Known]  # how matches of (player, opponent, game) went
    meta: Meta = Meta()


class Opponents:
    """Draws line-ups for the learners of one game and iteration."""

    def __init__(self, scene: Scene, config: MatchmakingConfig, rng: np.random.Generator) -> None:
        self._scene, self._config, self._rng = scene, config, rng
        self._pools = {policy: self._pool(policy) for policy in sorted(set(scene.live))}
        self._weights: dict[str, dict[str, NDArray[np.float64]]] = {}

    @property
    def policies(self) -> int:
        """Return how many policies have seats, each with opponents of its own."""
        return len(self._pools)

    def can_meet(self, rule: str) -> bool:
        """Return whether a rule has somebody to meet in every seat."""
        if rule in JOINT_RULES:
            return bool(self._scene.meta.joint)
        everyone = all(pool.players for pool in self._pools.values())
        return everyone and all(weights.any() for weights in self._of_rule(rule).values())

    def of_main(self, rule: str, learners: Sequence[int], deals: int, size: int) -> dict[int, list[Lineup]]:
        """Return, by learner's seat, a line-up for each deal; ``size`` different draws a policy are dealt out."""
        if rule in JOINT_RULES:
            drawn = {seat: jpsro(self._scene.meta, seat, size, self._rng) for seat in learners}
            return {seat: [lineups[deal % size] for deal in range(deals)] for seat, lineups in drawn.items()}
        hands = {
            policy: _hand(self._pools[policy].players, weights, size, self._rng)
            for policy, weights in self._of_rule(rule).items()
        }
        return self._dealt(hands, learners, deals)

    def of_exploiter(
        self, policy: str, kind: Kind, config: ExploitersConfig, deals: int, size: int
    ) -> dict[int, list[Lineup]]:
        """Return, by the exploiter's seat, a line-up for each deal."""
        hands = {}
        for station, pool in self._pools.items():
            if kind == "main_exploiter":
                mains = [place for place, member in enumerate(pool.kinds) if member == "main"]
                past = pool.among(mains)
                met = OpponentPool([station, *past.players], (policy,), pool.game, pool.known, pool.config)
                weights = main_exploiter(met, config.hopeless)
            else:
                met = OpponentPool(pool.players or [station], (policy,), pool.game, pool.known, pool.config)
                weights = league_exploiter(met)
            hands[station] = _hand(met.players, weights, size, self._rng)
        return self._dealt(hands, range(len(self._scene.live)), deals)

    def _of_rule(self, rule: str) -> dict[str, NDArray[np.float64]]:
        """Return a rule's probabilities by policy; they are worked out once."""
        if rule not in self._weights:
            self._weights[rule] = {policy: PAST_RULES[rule](pool) for policy, pool in self._pools.items()}
        return self._weights[rule]

    def _dealt(
        self, hands: Mapping[str, Sequence[str]], learners: Sequence[int], deals: int
    ) -> dict[int, list[Lineup]]:
        """Deal the hands out: seats ahead of the learner take from a hand one after another, deal by deal."""
        live = self._scene.live
        seats = len(live)
        return {
            learner: [
                tuple(
                    hands[live[seat]][(deal + (seat - learner) % seats - 1) % len(hands[live[seat]])]
                    for seat in range(seats)
                )
                for deal in range(deals)
            ]
            for learner in learners
        }

    def _pool(self, policy: str) -> OpponentPool:
        """Return the past players that may take a seat of ``policy``: its snapshots, exploiters' and guests."""
        scene = self._scene
        members = [one for one in scene.population if one.policy == policy or one.kind != "main"]
        return OpponentPool(
            [one.id for one in members],
            _learners(policy, scene.live),
            scene.game,
            scene.known,
            self._config,
            [one.kind for one in members],
            scene.meta.weights,
        )


def _learners(policy: str, live: Lineup) -> tuple[str, ...]:
    """Return the live policies that may meet ``policy`` in another seat."""
    met = (live[:seat] + live[seat + 1 :] for seat, owner in enumerate(live) if owner == policy)
    return tuple(sorted({learner for others in met for learner in others}))


def _hand(players: Sequence[str], probabilities: NDArray[np.float64], size: int, rng: np.random.Generator) -> list[str]:
    """Draw ``size`` players, of whom B is expected ``size`` * P(B) times, in random order."""
    cumulated = np.cumsum(probabilities)
    points = (rng.random() + np.arange(size)) / size * cumulated[-1]
    drawn = np.minimum(np.searchsorted(cumulated, points, side="right"), len(cumulated) - 1)
    return [players[number] for number in rng.permutation(drawn)]
