"""The meta-game of PSRO, whose strategies are a population's players, and its meta-strategies.

Its payoffs are exact if every player has a policy table, and otherwise estimated from matches. If one policy plays all
seats, the meta-game is symmetric, and its payoffs are means over seatings; if roles have different policies, each seat
has its own set of strategies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError
from games.common.section import Section
from games.spec import GameSpec, Utility
from league.config import RunConfig
from league.config.matchmaking import MatchmakingConfig
from league.config.plugins import settings_of
from league.population.matchmaking.rules import JOINT, MIXTURE, OPPONENT_RULES
from league.population.results.payoffs import PayoffTable
from league.population.storage.members import MetaStrategy
from league.theory.exact.equilibrium_gaps import cce_gap, ce_gap, exact_game
from league.theory.exact.exploitability import PolicyTable, exploitability, mixable, seat_mixture
from league.theory.meta_solvers import JOINT_SOLVERS, META_SOLVERS, MetaSolver, with_settings
from league.theory.solvers import EmpiricalGame, Matrix
from league.theory.solvers.empirical_game import largest, without_rounding

Strategies = tuple[str, ...]  # the players that may take one seat, oldest first  # [N]


class MetaGame(NamedTuple):
    """The strategies of each seat in one game, and their payoffs."""

    game: str
    seats: tuple[Strategies, ...]  # [seats]
    tables: tuple[tuple[PolicyTable, ...], ...] | None  # by seat and strategy; None if any is missing
    payoffs: PayoffTable

    @property
    def symmetric(self) -> bool:
        """Whether the same players may take every seat."""
        return len(set(self.seats)) == 1

    def matrix(self) -> Matrix:
        """Return the row player's mean return against the column player over seatings [N, N]; nan: never met."""
        if self.tables is None or len(self.seats) != 2:
            return self.payoffs.matrix(self.seats[0], self.game)[0]
        first, second = exact_game(self.tables).values
        return without_rounding((first + second.T) / 2.0, largest(first))

    def empirical_game(self) -> EmpiricalGame:
        """Return the payoffs by line-up [P, n_1, …, n_P]; without tables, of two seats, means over both seatings.

        Raises UsageError for more than two seats without tables.
        """
        if self.tables is not None:
            return exact_game(self.tables)
        if len(self.seats) != 2:
            raise UsageError(
                f"{self.game} has {len(self.seats)} seats and no tables of its policies, so the payoffs of line-ups "
                "are not known. Use matchmaking.psro, or a game small enough for evaluation.exact_limit."
            )
        players = list(dict.fromkeys([*self.seats[0], *self.seats[1]]))
        index = {player: i for i, player in enumerate(players)}
        returns, _ = self.payoffs.matrix(players, self.game)
        rows, columns = ([index[player] for player in seat] for seat in self.seats)
        return EmpiricalGame(np.stack([returns[np.ix_(rows, columns)], returns[np.ix_(columns, rows)].T]))


def mixture_weights(meta_game: MetaGame, solver: str, settings: Section | None = None) -> tuple[dict[str, float], ...]:
    """Return by seat the weight of each player in the meta-strategy that ``solver`` computes, with its settings.

    Raises UsageError for a solver of symmetric games where the seats have different strategies.
    """
    mixtures = _mixtures(meta_game, with_settings(META_SOLVERS[solver], settings))
    if mixtures is None:
        raise UsageError(
            f"The meta-strategy {solver} is for games in which one policy plays all seats; in {meta_game.game} roles "
            "have different policies. Use nash, prd, linear or uniform."
        )
    return tuple(_by_player(seat, weights) for seat, weights in zip(meta_game.seats, mixtures, strict=True))


def _mixtures(meta_game: MetaGame, solver: MetaSolver) -> Sequence[np.ndarray] | None:
    """Return a mixture [N] for each seat; None for a solver that cannot solve such a meta-game."""
    if solver.by_tables is not None and meta_game.tables is not None:
        mixtures = solver.by_tables(meta_game.game, meta_game.tables)
        if mixtures is not None:
            return mixtures
    if solver.by_age:
        return [solver.make(np.zeros((len(seat), len(seat)))) for seat in meta_game.seats]
    if meta_game.symmetric:
        return [solver.make(meta_game.matrix())] * len(meta_game.seats)
    return None if solver.by_seat is None else solver.by_seat(meta_game.empirical_game())


def meta_needs(config: MatchmakingConfig) -> AbstractSet[str]:
    """Return the kinds of meta-strategy that the run's opponent rules need: none, MIXTURE or JOINT."""
    weighed = [OPPONENT_RULES[rule] for rule, weight in config.opponent_shares.items() if weight]
    return {need for rule in weighed for need in rule.needs}


def reads_payoffs(config: MatchmakingConfig) -> bool:
    """Return whether the meta-strategy that is trained against depends on payoffs."""
    return JOINT in meta_needs(config) or not META_SOLVERS[config.psro_solver].by_age


def meta_strategy(meta_game: MetaGame, config: RunConfig, seed: int) -> MetaStrategy:
    """Return the meta-strategy of PSRO or JPSRO until the next snapshot; ``seed`` draws a CE's advice."""
    matchmaking = config.matchmaking
    needs = meta_needs(matchmaking)
    if MIXTURE in needs:
        settings = settings_of(config, "meta_solvers", matchmaking.psro_solver)
        by_seat = mixture_weights(meta_game, matchmaking.psro_solver, settings)
        return MetaStrategy({player: weight for weights in by_seat for player, weight in weights.items()})
    if JOINT not in needs:
        return MetaStrategy()
    settings = settings_of(config, "joint_solvers", matchmaking.jpsro_solver)
    solver = with_settings(JOINT_SOLVERS[matchmaking.jpsro_solver], settings)
    joint = solver.make(meta_game.empirical_game())
    support = np.argwhere(joint > 1e-9)
    lineups = [
        (tuple(seat[i] for seat, i in zip(meta_game.seats, indices, strict=True)), float(joint[tuple(indices)]))
        for indices in support
    ]
    rng = np.random.default_rng(seed)
    advised = []
    for seat, strategies in enumerate(meta_game.seats):
        marginal = joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis != seat))
        advised.append(strategies[int(rng.choice(len(strategies), p=marginal / marginal.sum()))])
    return MetaStrategy(joint=lineups, advised=tuple(advised) if solver.advises else ())


def best_response_among(meta_game: MetaGame, meta: MetaStrategy, seat: int, candidates: Collection[str]) -> str:
    """Return the candidate with the highest return in a seat against the meta-strategy; the newest of equals."""
    strategies = meta_game.seats[seat]
    if meta.joint:
        values = np.nan_to_num(meta_game.empirical_game().values[seat], nan=-np.inf)
        joint = np.moveaxis(_joint_tensor(meta_game, meta), seat, 0)
        advice = strategies.index(meta.advised[seat]) if meta.advised else slice(None)
        opponents = joint[advice].reshape(-1, *joint.shape[1:]).sum(axis=0)  # the weights of their line-ups
        returns = (np.moveaxis(values, seat, 0) * opponents).reshape(len(strategies), -1).sum(axis=1)
    else:
        opposite = meta_game.seats[1 - seat if len(meta_game.seats) == 2 else seat]
        mixture = np.array([meta.weights.get(player, 0.0) for player in opposite])
        payoffs = meta_game.matrix() if meta_game.symmetric else _seat_payoffs(meta_game.empirical_game(), seat)
        returns = np.nan_to_num(payoffs) @ mixture
    rounded = np.round(returns, 9).tolist()
    ranked = [
        (value, index, player)
        for index, (player, value) in enumerate(zip(strategies, rounded, strict=True))
        if player in candidates
    ]
    return max(ranked)[2]


def mixture_metrics(
    spec: GameSpec, meta_game: MetaGame, weights: Sequence[Mapping[str, float]], seats: Sequence[int] | None = None
) -> dict[str, float]:
    """Return the exact exploitability of a mixture by seat; empty for cooperative games and those without tables.

    ``seats``: over these only, where the others have fixed players.
    """
    if meta_game.tables is None or not mixable(spec.name) or spec.utility is Utility.IDENTICAL:
        return {}
    return {"mixture_exploitability": exploitability(mixture_table(meta_game, weights), seats)}


def mixture_table(meta_game: MetaGame, weights: Sequence[Mapping[str, float]]) -> PolicyTable:
    """Return the table of a mixture by seat, in a game with tables."""
    assert meta_game.tables is not None, "a mixture of players without tables has none"
    by_seat = [[weight_of[player] for player in seat] for seat, weight_of in zip(meta_game.seats, weights, strict=True)]
    return seat_mixture(meta_game.tables, by_seat)


def joint_metrics(meta_game: MetaGame, meta: MetaStrategy) -> dict[str, float]:
    """Return the CCE and CE gaps of a joint meta-strategy in the full game, summed over players; empty without one."""
    if meta_game.tables is None or not meta.joint or not mixable(meta_game.game):
        return {}
    joint = _joint_tensor(meta_game, meta)
    return {"cce_gap": cce_gap(joint, meta_game.tables), "ce_gap": ce_gap(joint, meta_game.tables)}


def _joint_tensor(meta_game: MetaGame, meta: MetaStrategy) -> NDArray[np.float64]:
    """Return the probabilities of a joint meta-strategy as a tensor [n_1, …, n_P]."""
    joint = np.zeros([len(seat) for seat in meta_game.seats])
    for lineup, weight in meta.joint:
        joint[tuple(s.index(player) for s, player in zip(meta_game.seats, lineup, strict=True))] = weight
    return joint


def _seat_payoffs(game: EmpiricalGame, seat: int) -> Matrix:
    """Return a seat's payoffs in a game of two seats: [its strategies, the other seat's]."""
    return np.asarray(game.values[0] if seat == 0 else game.values[1].T)


def _by_player(strategies: Strategies, weights: np.ndarray) -> dict[str, float]:
    return {player: float(weight) for player, weight in zip(strategies, weights, strict=True)}
