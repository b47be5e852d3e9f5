"""The game among a population's players, and the meta-strategies that training and measuring take from it.

Its payoffs are exact where every strategy is a table, else what matches have shown. Where all seats are one
policy's, players are weighed by the symmetric game, the mean over seatings; where roles have policies of
their own, each seat has its own strategies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.errors import UsageError
from games.spec import GameSpec, Utility
from league.config_matchmaking import MatchmakingConfig
from league.exploitability import PolicyTable, exploitability, mixable, seat_mixture
from league.joint import cce_gap, ce_gap, exact_game
from league.least_exploitable import countable, least_exploitable
from league.matchmaking.pool import Meta
from league.meta_solvers import (
    BY_AGE,
    JOINT_SOLVERS,
    META_SOLVERS,
    EmpiricalGame,
    Matrix,
    projected_replicator_dynamics,
    zero_sum_nash,
)
from league.payoffs import PayoffTable

Strategies = tuple[str, ...]  # the players that may take one seat, oldest first  # [N]


class MetaGame(NamedTuple):
    """Who may play what in one game, and how they fare."""

    game: str
    seats: tuple[Strategies, ...]  # [seats]
    tables: tuple[tuple[PolicyTable, ...], ...] | None  # by seat and strategy; None where some have none
    payoffs: PayoffTable

    @property
    def symmetric(self) -> bool:
        """Whether the same players may take every seat."""
        return len(set(self.seats)) == 1

    def matrix(self) -> Matrix:
        """Return row's mean return against column over the seatings of two [N, N], nan for pairs that never met."""
        if self.tables is None or len(self.seats) != 2:
            return self.payoffs.matrix(self.seats[0], self.game)[0]
        first, second = exact_game(self.tables).values
        return np.asarray((first + second.T) / 2.0)

    def by_seat(self) -> EmpiricalGame:
        """Return the payoffs by line-up [P, n_1, …, n_P]; of two seats without tables they are not known apart.

        Raises UsageError for more than two seats without tables.
        """
        if self.tables is not None:
            return exact_game(self.tables)
        if len(self.seats) != 2:
            raise UsageError(
                f"{self.game} has {len(self.seats)} seats and no tables of its policies, so how each line-up fares is "
                "not known. Use matchmaking.psro, or a game small enough for evaluation.exact_limit."
            )
        players = list(dict.fromkeys([*self.seats[0], *self.seats[1]]))
        place = {player: index for index, player in enumerate(players)}
        returns, _ = self.payoffs.matrix(players, self.game)
        rows, columns = ([place[player] for player in seat] for seat in self.seats)
        return EmpiricalGame(np.stack([returns[np.ix_(rows, columns)], returns[np.ix_(columns, rows)].T]))


def mixture_weights(meta_game: MetaGame, solver: str) -> tuple[dict[str, float], ...]:
    """Return by seat the weight of each player in the meta-strategy that ``solver`` names.

    "least_exploitable" is "nash" where it cannot be counted out.
    Raises UsageError for a solver of symmetric games where each seat has players of its own.
    """
    if solver == "least_exploitable":
        if meta_game.tables is not None and countable(meta_game.game):
            found = [least_exploitable(meta_game.tables, seat)[0] for seat in range(len(meta_game.seats))]
            return tuple(_named(seat, weights) for seat, weights in zip(meta_game.seats, found, strict=True))
        solver = "nash"
    if solver in BY_AGE:
        count = META_SOLVERS[solver]
        return tuple(_named(seat, count(np.zeros((len(seat), len(seat))))) for seat in meta_game.seats)
    if meta_game.symmetric:
        weights = _named(meta_game.seats[0], META_SOLVERS[solver](meta_game.matrix()))
        return (weights,) * len(meta_game.seats)
    if solver == "nash":
        mixtures: Sequence[np.ndarray] = zero_sum_nash(meta_game.by_seat(), missing="mean")
    elif solver == "prd":
        mixtures = projected_replicator_dynamics(meta_game.by_seat(), missing="mean")
    else:
        raise UsageError(
            f"The meta-strategy {solver} is for games in which one policy takes all seats; in {meta_game.game} roles "
            "have policies of their own. Use nash, prd, linear or uniform."
        )
    return tuple(_named(seat, weights) for seat, weights in zip(meta_game.seats, mixtures, strict=True))


def meta_strategy(meta_game: MetaGame, config: MatchmakingConfig, seed: int) -> Meta:
    """Return what PSRO or JPSRO trains against until the next snapshot; ``seed`` draws what a CE advises."""
    if config.psro:
        by_seat = mixture_weights(meta_game, config.psro_solver)
        return Meta({player: weight for weights in by_seat for player, weight in weights.items()})
    if not config.jpsro:
        return Meta()
    joint = JOINT_SOLVERS[config.jpsro_solver](meta_game.by_seat())
    places = np.argwhere(joint > 1e-9)
    lineups = [
        (tuple(seat[i] for seat, i in zip(meta_game.seats, place, strict=True)), float(joint[tuple(place)]))
        for place in places
    ]
    rng = np.random.default_rng(seed)
    advised = []
    for seat, strategies in enumerate(meta_game.seats):
        others = tuple(axis for axis in range(joint.ndim) if axis != seat)
        marginal = joint.sum(axis=others)
        advised.append(strategies[int(rng.choice(len(strategies), p=marginal / marginal.sum()))])
    return Meta(joint=lineups, advised=tuple(advised) if config.jpsro_solver in ("mgce", "mece") else ())


def best_against(meta_game: MetaGame, meta: Meta, seat: int, among: Collection[str]) -> str:
    """Return who of ``among`` earns most in a seat while the others follow the meta-strategy; the newest of equals."""
    strategies = meta_game.seats[seat]
    if meta.joint:
        values = np.nan_to_num(meta_game.by_seat().values[seat], nan=-np.inf)
        others = np.moveaxis(_tensor(meta_game, meta), seat, 0)
        told = strategies.index(meta.advised[seat]) if meta.advised else slice(None)
        met = others[told].reshape(-1, *others.shape[1:]).sum(axis=0)
        earned = (np.moveaxis(values, seat, 0) * met).reshape(len(strategies), -1).sum(axis=1)
    else:
        opposite = meta_game.seats[1 - seat if len(meta_game.seats) == 2 else seat]
        mixture = np.array([meta.weights.get(player, 0.0) for player in opposite])
        payoffs = meta_game.matrix() if meta_game.symmetric else _of_seat(meta_game.by_seat(), seat)
        earned = np.nan_to_num(payoffs) @ mixture
    rounded = np.round(earned, 9).tolist()
    return max(
        (value, place, one) for place, (one, value) in enumerate(zip(strategies, rounded, strict=True)) if one in among
    )[2]


def mixture_metrics(spec: GameSpec, meta_game: MetaGame, weights: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the exact exploitability of a mixture, given by seat; nothing where it has no table, or nobody opposes."""
    if meta_game.tables is None or not mixable(spec.name) or spec.utility is Utility.IDENTICAL:
        return {}
    by_seat = [[own[player] for player in seat] for seat, own in zip(meta_game.seats, weights, strict=True)]
    return {"mixture_exploitability": exploitability(seat_mixture(meta_game.tables, by_seat))}


def joint_metrics(meta_game: MetaGame, meta: Meta) -> dict[str, float]:
    """Return what players gain, summed, by leaving a joint meta-strategy in the full game, where there is one."""
    if meta_game.tables is None or not meta.joint or not mixable(meta_game.game):
        return {}
    joint = _tensor(meta_game, meta)
    return {"cce_gap": cce_gap(joint, meta_game.tables), "ce_gap": ce_gap(joint, meta_game.tables)}


def _tensor(meta_game: MetaGame, meta: Meta) -> NDArray[np.float64]:
    """Return a joint meta-strategy by strategies [n_1, …, n_P]."""
    joint = np.zeros([len(seat) for seat in meta_game.seats])
    for lineup, weight in meta.joint:
        joint[tuple(s.index(player) for s, player in zip(meta_game.seats, lineup, strict=True))] = weight
    return joint


def _of_seat(game: EmpiricalGame, seat: int) -> Matrix:
    """Return a seat's payoffs in a game of two [own, other]."""
    return np.asarray(game.values[0] if seat == 0 else game.values[1].T)


def _named(strategies: Strategies, weights: np.ndarray) -> dict[str, float]:
    return {player: float(weight) for player, weight in zip(strategies, weights, strict=True)}
