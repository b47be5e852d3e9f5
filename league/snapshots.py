"""Freezing policies into the population, and measuring what was frozen: the last verb of the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from arena.records import Episode, MatchRequest
from games.seeds import derive_seed
from games.spec import GameSpec
from league.config import RunConfig
from league.engines import ModelEngine
from league.evaluation import Profile, Tables, exact_metrics, profiles, rating_matches, score_against
from league.exploitability import PolicyTable
from league.freezing import begins_anew, gained, gate_matches, go_back, surely_better
from league.matchmaking.pool import Member, Meta
from league.meta_game import (
    MetaGame,
    best_against,
    joint_metrics,
    meta_strategy,
    mixture_metrics,
    mixture_weights,
)
from league.meta_solvers import BY_AGE
from league.payoffs import summarise
from league.population import Snapshot
from league.run_state import RunState, publish, save_ratings
from league.runs import STATE_FOLDER
from league.start import Roles
from league.teams import team_matches, team_metrics

Metrics = dict[str, float]
Play = Callable[[Sequence[MatchRequest]], list[Episode]]


class Snapshots:
    """Freezes, rates and measures over one run's state. ``play`` plays with the weights of the moment."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path,
        roles: Roles,
        specs: dict[str, GameSpec],
        scales: dict[str, float],
        state: RunState,
        engine: ModelEngine,
        play: Play,
    ) -> None:
        self._config, self._run_dir, self._roles, self._specs = config, run_dir, roles, specs
        self._scales, self._state, self._engine, self._play = scales, state, engine, play
        self._tables = Tables(run_dir / STATE_FOLDER / "tables", config.evaluation.exact_limit)
        for snapshot in state.population.all():
            self._seat(snapshot)

    def members(self) -> list[Member]:
        """Return the population that matchmaking may draw from: snapshots that have not retired, and guests."""
        found = [
            Member(snapshot.id, snapshot.policy, self._config.policy(snapshot.policy).learner)
            for snapshot in self._state.population.all()
            if snapshot.id not in self._state.retired
        ]
        return found + [Member(guest, guest, "guest") for guest in self._config.matchmaking.guests]

    def freeze(self, names: Sequence[str], iteration: int) -> Metrics:
        """Freeze policies and measure them; one that never trains, only once. Exploiters may begin anew after."""
        state, rated = self._state, list[Metrics]()
        earlier = state.population.all()
        metrics: Metrics = {}
        for name in names:
            parent = next((one.id for one in reversed(earlier) if one.policy == name), None)
            if parent and self._config.policy(name).frozen:
                continue
            if parent and self._config.policy(name).learner == "main" and self._config.evaluation.gate is not None:
                metrics |= self._gate(name, parent, self._config.evaluation.gate)
                if not metrics[f"{name}/promoted"]:
                    continue
            snapshot = state.population.add(name, iteration, parent, state.policies[name].lm.save)
            self._seat(snapshot)
            state.frozen_at[name] = iteration
            rated.append(self._rate(snapshot, earlier))
        metrics |= _means(rated) | self._rate_teams() | self._measure(iteration)
        for name in names:
            if name in self._config.exploiter_kinds and begins_anew(self._config, name, iteration):
                go_back(self._run_dir, state, name)
        save_ratings(self._run_dir, state)
        publish(self._run_dir, state)
        return metrics

    def _gate(self, name: str, parent: str, confidence: float) -> Metrics:
        """Compare a policy with its last snapshot; return the gain and whether it is surely better."""
        newest = {one: self._state.population.newest(one).id for one in self._bound()}
        requests: list[MatchRequest] = []
        for game, spec in self._specs.items():
            first = self._state.next_match + len(requests)
            requests += gate_matches(self._config, name, parent, newest, spec, self._roles[game], first)
        self._state.next_match += len(requests)
        gain, error = gained(self._play(requests), name, self._scales.__getitem__)
        return {f"{name}/gain": gain, f"{name}/promoted": float(surely_better(gain, error, confidence))}

    def _measure(self, iteration: int) -> Metrics:
        """Measure the newest snapshots and the mixture exactly where that can be; set the next meta-strategies."""
        metrics: Metrics = {}
        state, config = self._state, self._config
        state.mixtures, state.meta = {}, {}
        for game, spec in self._specs.items():
            tables = self._tabulated(spec)
            mixed = self._meta_game(spec, config.evaluation.mixture, tables)
            state.mixtures[game] = [dict(weights) for weights in mixture_weights(mixed, config.evaluation.mixture)]
            trained = self._meta_game(spec, config.matchmaking.meta_solver, tables)
            state.meta[game] = meta_strategy(trained, config.matchmaking, derive_seed(config.seed, game, iteration))
            if tables:
                metrics |= _prefixed(game, exact_metrics(spec, tables[self._profiles(game)[-1]]))
                metrics |= _prefixed(game, mixture_metrics(spec, mixed, state.mixtures[game]))
                metrics |= _prefixed(game, joint_metrics(trained, state.meta[game]))
            self._respond(trained, state.meta[game])
        self._retire()
        return metrics

    def _tabulated(self, spec: GameSpec) -> dict[Profile, PolicyTable]:
        """Return the tables of all line-ups of snapshots that ever sat together; none if the game has no table."""
        found: dict[Profile, PolicyTable] = {}
        for profile in self._profiles(spec.name, exploiters=True) if self._config.evaluation.exact else ():
            table = self._tables.of(profile, spec, self._engine, self._roles[spec.name], self._config.seed)
            if table is None:
                return {}
            found[profile] = table
        return found

    def _profiles(self, game: str, exploiters: bool = False) -> list[Profile]:
        """Return who sat in a game's seats each time that main policies were frozen; exploiters sit by themselves."""
        snapshots = self._state.population.all()
        mains = profiles([one for one in snapshots if one.policy in self._bound()], self._roles[game])
        alone = [(one.id,) * len(self._roles[game]) for one in snapshots if one.policy in self._config.exploiter_kinds]
        return alone + mains if exploiters else mains

    def _meta_game(self, spec: GameSpec, solver: str, tables: Mapping[Profile, PolicyTable]) -> MetaGame:
        """Return the game among snapshots that have not retired; exploiters' count where the solver reads payoffs."""
        seats: list[dict[str, PolicyTable | None]] = [{} for _ in range(spec.seats)]
        for profile in self._profiles(spec.name, exploiters=solver not in BY_AGE):
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

    def _respond(self, meta_game: MetaGame, meta: Meta) -> None:
        """Let policies that respond to a meta-strategy start from the snapshot that the configuration names."""
        start = self._config.matchmaking.response_from
        if start == "newest" or not (meta.weights or meta.joint):
            return
        for name in self._bound():
            seat = next((role.seat for role in self._roles[meta_game.game] if role.policy == name), None)
            own = self._state.population.all(name)
            if seat is None or self._config.policy(name).frozen:
                continue
            chosen = own[0].id if start == "first" else best_against(meta_game, meta, seat, {one.id for one in own})
            if chosen != own[-1].id:
                policy = self._state.policies[name]
                weights = policy.lm.with_weights(self._state.population.get(chosen).path)
                policy.begin_anew(weights.parameters())
                weights.release()
                self._state.pending.pop(name, None)

    def _retire(self) -> None:
        """Let the oldest snapshots beyond ``matchmaking.keep`` of each policy retire, save those that carry weight."""
        keep = self._config.matchmaking.keep
        if keep is None:
            return
        weights = [seat for by_seat in self._state.mixtures.values() for seat in by_seat]
        by_age = self._config.evaluation.mixture in BY_AGE
        needed = {player for seat in weights for player, weight in seat.items() if weight > 1e-9 and not by_age}
        for meta in self._state.meta.values():
            needed |= {player for player, weight in meta.weights.items() if weight > 1e-9}
            needed |= {player for lineup, _ in meta.joint for player in lineup}
        for name in self._state.policies:
            own = [one.id for one in self._state.population.all(name) if one.id not in self._state.retired]
            spare = [one for one in own[:-1] if one not in needed]
            self._state.retired.update(spare[: max(len(own) - keep, 0)])

    def _rate(self, snapshot: Snapshot, earlier: Sequence[Snapshot]) -> Metrics:
        """Play the rating matches of a new snapshot; return its rating and its scores against the anchors."""
        state, exploiter = self._state, snapshot.policy in self._config.exploiter_kinds
        requests = rating_matches(
            self._config.evaluation,
            run_seed=self._config.seed,
            snapshot=snapshot,
            earlier=[one for one in earlier if one.id not in state.retired],
            specs=[spec for spec in self._specs.values() if spec.seats > 1],
            roles=self._roles,
            exploiters=frozenset(self._config.exploiter_kinds),
            known=state.payoffs.known,
            first_index=state.next_match,
        )
        state.next_match += len(requests)
        episodes = self._play(requests)
        state.ratings.fold(episodes)
        state.record(episodes)
        results = summarise(episodes, state.iteration)
        played = [
            game
            for game, spec in self._specs.items()
            if spec.seats > 1 and (exploiter or snapshot.policy in {role.policy for role in self._roles[game]})
        ]
        ratings = [state.ratings.rating(snapshot.id, game)[0] for game in played]
        metrics: Metrics = {"rating": fmean(ratings)} if ratings else {}
        for game in self._specs:
            for anchor in self._config.evaluation.anchors:
                score = score_against(results, snapshot.id, anchor, game)
                if score is not None:
                    metrics[f"{game}/score_against_{anchor}"] = score
        return _prefixed(snapshot.policy, metrics) if exploiter else metrics

    def _rate_teams(self) -> Metrics:
        """Play the newest snapshots, which the live policies are now, in the games that seat one team."""
        metrics: Metrics = {}
        settings = self._config.evaluation
        for spec in [spec for spec in self._specs.values() if spec.seats == 1 and settings.matches]:
            requests = team_matches(
                spec, self._roles, settings.anchors, settings.matches, self._config.seed, self._state.next_match
            )
            self._state.next_match += len(requests)
            metrics |= team_metrics(spec, settings.anchors, self._play(requests))
        return metrics

    def _seat(self, snapshot: Snapshot) -> None:
        """Let a snapshot play, once its files have been checked against their hashes."""
        lm = self._state.policies[snapshot.policy].lm
        self._engine.register(snapshot.id, snapshot.path, partial(self._state.population.verify, snapshot), like=lm)

    def _bound(self) -> set[str]:
        """Return the main policies: those that roles bind to."""
        return {role.policy for seated in self._roles.values() for role in seated}


def _prefixed(name: str, metrics: Metrics) -> Metrics:
    return {f"{name}/{key}": value for key, value in metrics.items()}


def _means(measured: Sequence[Metrics]) -> Metrics:
    """Return the mean of each metric over those that have it."""
    keys = dict.fromkeys(key for one in measured for key in one)
    return {key: fmean(one[key] for one in measured if key in one) for key in keys}
