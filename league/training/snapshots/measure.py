"""Measurements of frozen policies: rating matches, exact play, teams, and the game among snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple

from arena.records import Episode, MatchRequest
from games.common.seeds import derive_seed
from games.spec import GameSpec, Utility
from league.config.context import RunContext
from league.config.plugins import settings_of
from league.population.evaluation.meta_game import (
    MetaGame,
    meta_strategy,
    mixture_table,
    mixture_weights,
    reads_payoffs,
)
from league.population.evaluation.policy_tables import PolicyTables, Profile, profiles
from league.population.evaluation.rating_matches import rating_matches, score_against, without_bystanders
from league.population.evaluation.strategies import GameStrategy, Strategies
from league.population.evaluation.teams import all_seats, team_matches, team_metrics
from league.population.players.fixed import FixedPlayers
from league.population.players.model_engine import ModelEngine
from league.population.players.player import Player
from league.population.results.payoffs import Result, summarise
from league.population.storage.members import MetaStrategy
from league.population.storage.population import Snapshot, newest_strangers
from league.population.storage.run_dir import STATE_FOLDER
from league.theory.exact.exploitability import PolicyTable, mixable
from league.theory.meta_solvers import META_SOLVERS
from league.training.checkpoints.run_state import RunState
from league.training.snapshots.evaluations import Measured, evaluate
from roles.role import Role, bound_policies, fixed_names

Metrics = dict[str, float]
Play = Callable[[Sequence[MatchRequest]], list[Episode]]


class PopulationMeasurement(NamedTuple):
    """The exact metrics and meta-strategies of the population, by game."""

    metrics: Metrics
    mixtures: dict[str, list[dict[str, float]]]  # the weight of each snapshot in RUN@mixture, by seat
    meta: dict[str, MetaStrategy]  # the one that the next matches are drawn from
    meta_games: dict[str, MetaGame]  # the game that ``meta`` was solved from
    tables: dict[str, dict[Profile, PolicyTable]]  # of all line-ups of snapshots, where the game is small enough
    strategies: dict[str, GameStrategy]  # of main policies, where there are tables


class AveragePlay(NamedTuple):
    """How the main policies in training play in a game with tables, and what they would play as on average."""

    player: Player
    own: PolicyTable
    table: PolicyTable  # of the mixture: at an information state members count by how likely they get there
    weights: list[dict[str, float]]  # of snapshots, and of policies in training, by seat; none: ``table`` is their own


class Measurements:
    """Rates and measures the snapshots of one run. ``play`` plays with the current weights.

    Its matches are recorded in the run's state, with the ratings that they change.
    """

    def __init__(
        self,
        context: RunContext,
        state: RunState,
        engine: ModelEngine,
        play: Play,
        fixed: FixedPlayers | None = None,
    ) -> None:
        self._context, self._config, self._roles, self._specs = context, context.config, context.roles, context.specs
        self._state, self._engine, self._play = state, engine, play
        self._fixed = fixed or FixedPlayers(context.roles, {})
        self._tables = PolicyTables(context.run_dir / STATE_FOLDER / "tables", context.config.evaluation.exact_limit)
        self._strategies = Strategies()
        self._main = set(bound_policies(context.roles))
        # By game and with exploiters or not: of how many snapshots, and the line-ups.
        self._line_ups: dict[tuple[str, bool], tuple[int, list[Profile]]] = {}

    def measure(self, iteration: int) -> PopulationMeasurement:
        """Return the mixtures and meta-strategies, and exact metrics of games that are small enough."""
        config = self._config
        measurement = PopulationMeasurement({}, {}, {}, {}, {}, {})
        for game, spec in self._specs.items():
            tables = self._tabulated(spec)
            mixed_game, mixture = self._mixture(spec, tables)
            meta_game = self._meta_game(spec, tables, exploiters=reads_payoffs(config.matchmaking))
            meta = meta_strategy(meta_game, config, derive_seed(config.seed, game, iteration))
            if tables:
                measurement.tables[game] = tables
                strategy = self._strategy(spec, tables)
                if strategy is not None:
                    measurement.strategies[game] = strategy
            measured = Measured(
                context=self._context,
                spec=spec,
                iteration=iteration,
                snapshots=self._state.population.all(),
                line_ups=self._profiles(game),
                tables=tables,
                mixed_game=mixed_game,
                mixture=mixture,
                meta_game=meta_game,
                meta=meta,
                strategy=measurement.strategies.get(game),
                newest=partial(self._newest, spec),
                play=self._play,
            )
            measurement.metrics.update(with_prefix(game, evaluate(measured)))
            measurement.mixtures[game] = mixture
            measurement.meta[game], measurement.meta_games[game] = meta, meta_game
        return measurement

    def average_play(self, spec: GameSpec) -> AveragePlay | None:
        """Return how the main policies in training play in a game, and the mixture of them and all snapshots.

        In a game of common interest, where nothing circles, their own play stands for the mixture. None for a game
        whose mixtures have no tables.
        """
        tables = self._tabulated(spec)
        if not tables or not mixable(spec.name):
            return None
        self._engine.refresh()
        roles, others = self._fixed.roles[spec.name], tuple(self._fixed.engines.items())
        live = tuple(role.policy for role in roles)
        player = Player(
            "+".join(live), spec, self._engine, roles, tuple(((name, 1.0),) for name in live), others=others
        )
        own = player.tabulate(self._config.seed, self._config.evaluation.exact_limit).table
        if spec.utility is Utility.IDENTICAL:
            return AveragePlay(player, own, own, [])
        mixed_game, weights = self._mixture(spec, tables | {live: own}, live)
        return AveragePlay(player, own, mixture_table(mixed_game, weights), weights)

    def _mixture(
        self, spec: GameSpec, tables: Mapping[Profile, PolicyTable], *live: Profile
    ) -> tuple[MetaGame, list[dict[str, float]]]:
        """Return the game among snapshots, and policies in training, and the weights of their mixture by seat."""
        solver = self._config.evaluation.mixture
        game = self._meta_game(spec, tables, *live, exploiters=not META_SOLVERS[solver].by_age)
        settings = settings_of(self._config, "meta_solvers", solver)
        return game, [dict(weights) for weights in mixture_weights(game, solver, settings)]

    def _newest(self, spec: GameSpec) -> Player:
        """Return the newest main line-up as a player."""
        profile = self._profiles(spec.name)[-1]
        members = tuple(((snapshot, 1.0),) for snapshot in profile)
        roles, others = self._fixed.roles[spec.name], tuple(self._fixed.engines.items())
        return Player("+".join(profile), spec, self._engine, roles, members, others=others)

    def _strategy(self, spec: GameSpec, tables: Mapping[Profile, PolicyTable]) -> GameStrategy | None:
        """Return the strategy of the main policies over their line-ups."""
        step_of = {snapshot.id: snapshot.step for snapshot in self._state.population.all()}
        steps = {profile: max(step_of.get(player, 0) for player in profile) for profile in self._profiles(spec.name)}
        return self._strategies.over_snapshots(spec, [role.name for role in self._roles[spec.name]], tables, steps)

    def rate_snapshot(self, snapshot: Snapshot, earlier: Sequence[Snapshot]) -> Metrics:
        """Play the rating matches of a new snapshot; return its rating and its scores against the anchors."""
        state, exploiter = self._state, snapshot.policy in self._config.league_roles
        requests = rating_matches(
            self._context,
            snapshot,
            [other for other in earlier if other.id not in state.retired],
            state.next_match,
            strangers={}
            if exploiter
            else {g: newest_strangers(self._config, spec, state.population.all()) for g, spec in self._specs.items()},
            pair_record=state.payoffs.pair_record,
        )
        state.next_match += len(requests)
        episodes = self._play(requests)
        state.ratings.update([without_bystanders(played, self._roles[played.request.game]) for played in episodes])
        state.record(episodes)
        results = summarise(episodes, state.iteration)
        played = [
            game
            for game, spec in self._specs.items()
            if spec.seats > 1 and (exploiter or snapshot.policy in {role.policy for role in self._roles[game]})
        ]
        ratings = [state.ratings.rating(snapshot.id, game)[0] for game in played]
        metrics: Metrics = {"rating": fmean(ratings)} if ratings else {}
        if ratings:
            metrics["rating_error"] = fmean([state.ratings.rating(snapshot.id, game)[1] for game in played])
        metrics |= self._scores(snapshot, results)
        return with_prefix(snapshot.policy, metrics) if exploiter else metrics

    def _scores(self, snapshot: Snapshot, results: Sequence[Result]) -> Metrics:
        """Return a snapshot's scores against the anchors and, if it has the only free seat, beside fixed players."""
        metrics: Metrics = {}
        for game in self._specs:
            opponents = [(f"score_against_{anchor}", anchor) for anchor in self._config.evaluation.anchors]
            if len(_free_seats(self._roles[game])) == 1:
                opponents += [("score_against_given", fixed) for fixed in fixed_names(self._roles)]
            scores = [(name, score_against(results, snapshot.id, player, game)) for name, player in opponents]
            metrics |= {f"{game}/{name}": score for name, score in scores if score is not None}
        return metrics

    def rate_teams(self) -> Metrics:
        """Play the live policies, now equal to the newest snapshots, in games of one seat; return their metrics."""
        metrics: Metrics = {}
        settings = self._config.evaluation
        for spec in [spec for spec in self._specs.values() if spec.seats == 1 and settings.matches]:
            requests = team_matches(
                spec, self._roles, settings.anchors, settings.matches, self._config.seed, self._state.next_match
            )
            self._state.next_match += len(requests)
            metrics |= team_metrics(spec, settings.anchors, self._play(requests))
        return metrics

    def _tabulated(self, spec: GameSpec) -> dict[Profile, PolicyTable]:
        """Return the tables of all line-ups of snapshots that were live together; empty if the game is too large."""
        tables: dict[Profile, PolicyTable] = {}
        for profile in self._profiles(spec.name, exploiters=True) if self._config.evaluation.exact else ():
            table = self._tables.get_or_compute(
                profile, spec, self._engine, self._fixed.roles[spec.name], self._config.seed, self._fixed.engines
            )
            if table is None:
                return {}
            tables[profile] = table
        return tables

    def _profiles(self, game: str, exploiters: bool = False) -> list[Profile]:
        """Return the line-ups of main policies, one for each freeze; with ``exploiters``, also theirs, in all seats."""
        key = game, exploiters
        if (known := self._line_ups.get(key)) is not None and known[0] == len(self._state.population):
            return known[1]
        snapshots = self._state.population.all()
        mains = profiles([snapshot for snapshot in snapshots if snapshot.policy in self._main], self._roles[game])
        theirs = {name for name in self._config.league_roles if exploiters}
        of_exploiters = [snapshot.id for snapshot in snapshots if snapshot.policy in theirs]
        found = [all_seats(player, self._roles[game]) for player in of_exploiters] + mains
        self._line_ups[key] = len(self._state.population), found
        return found

    def _meta_game(
        self, spec: GameSpec, tables: Mapping[Profile, PolicyTable], *live: Profile, exploiters: bool
    ) -> MetaGame:
        """Return the game among snapshots that have not retired, with or without the exploiters', and ``live``."""
        seats: list[dict[str, PolicyTable | None]] = [{} for _ in range(spec.seats)]
        for profile in [*self._profiles(spec.name, exploiters=exploiters), *live]:
            for seat, player in enumerate(profile):
                if player not in self._state.retired:
                    seats[seat].setdefault(player, tables.get(profile))
        complete = bool(tables)
        return MetaGame(
            spec.name,
            tuple(tuple(seat) for seat in seats),
            tuple(tuple(t for t in seat.values() if t is not None) for seat in seats) if complete else None,
            self._state.payoffs,
        )


def _free_seats(roles: Sequence[Role]) -> list[int]:
    """Return the seats without a fixed player."""
    return [role.seat for role in roles if not role.fixed]


def with_prefix(name: str, metrics: Metrics) -> Metrics:
    """Return the metrics with ``name/`` before their keys."""
    return {f"{name}/{key}": value for key, value in metrics.items()}
