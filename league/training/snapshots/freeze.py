"""The last step of an iteration: freeze policies into the population and measure the new snapshots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from arena.lm.finite import check_weights
from arena.records import MatchRequest
from games.common.files import atomic_write
from league.config.context import RunContext
from league.population.evaluation.meta_game import MetaGame, best_response_among
from league.population.evaluation.ordinary_language import language_metrics
from league.population.matchmaking.league_roles import LEAGUE_ROLES
from league.population.players.fixed import FixedPlayers
from league.population.players.model_engine import ModelEngine
from league.population.storage.identity import card_digests
from league.population.storage.members import GUEST, Member, MetaStrategy
from league.population.storage.population import Origin, Plays, Snapshot, snapshot_id
from league.theory.meta_solvers import META_SOLVERS
from league.training.checkpoints.checkpoint import save_ratings
from league.training.checkpoints.run_state import Beginning, RunState
from league.training.snapshots.distilling import distil_in_place_if_due
from league.training.snapshots.exploiter_cycle import initial_snapshot, reset_exploiter, reset_weights, resets_after
from league.training.snapshots.gate import (
    estimate_gain,
    find_flips,
    gate_matches,
    outweigh,
    play_until_decided,
    significantly_positive,
)
from league.training.snapshots.measure import Measurements, Metrics, Play, PopulationMeasurement
from learners.update.policy import Policy
from roles.role import bound_policies

FLIPS_FOLDER = "flips"  # in a run directory: by policy and iteration, the matches that a gate saw change


class Snapshots:
    """Freezes the policies of one run, and rates and measures them. ``play`` plays with the current weights."""

    def __init__(
        self,
        context: RunContext,
        state: RunState,
        engine: ModelEngine,
        play: Play,
        fixed: FixedPlayers | None = None,
    ) -> None:
        self._context, self._config = context, context.config
        self._state, self._engine, self._play = state, engine, play
        self._measurements = Measurements(context, state, engine, play, fixed)
        self.measured: PopulationMeasurement | None = None  # at the last freeze in this process
        for snapshot in state.population.all():
            self._register(snapshot)

    def members(self) -> list[Member]:
        """Return the players that matchmaking may draw: snapshots that are neither retired nor held out, and guests."""
        present = [one for one in self._state.population.all() if one.id not in self._state.retired]
        policies = {name: self._config.policy(name) for name in {snapshot.policy for snapshot in present}}
        snapshots = [
            Member(snapshot.id, snapshot.policy, policies[snapshot.policy].league_role)
            for snapshot in present
            if not policies[snapshot.policy].held_out
        ]
        return snapshots + [Member(guest, guest, GUEST) for guest in self._config.matchmaking.guests]

    def freeze(self, names: Sequence[str], iteration: int) -> Metrics:
        """Freeze policies and measure them (one that never trains only once); then reset exploiters that are due."""
        state, ratings = self._state, list[Metrics]()
        earlier = state.population.all()
        metrics: Metrics = distil_in_place_if_due(self._context, state, self._measurements.average_play, iteration)
        for name in names:
            last = next((snapshot.id for snapshot in reversed(earlier) if snapshot.policy == name), None)
            if last and self._config.policy(name).frozen:
                continue
            if last and self._config.policy(name).bound:
                metrics |= self._gates(name, last, iteration)
                if not metrics.get(f"{name}/promoted", 1.0):
                    continue
            origin = state.origins.get(name) or self._origin(name, last)
            save = partial(_save, state.policies[name])
            its_id, live = snapshot_id(name, iteration), state.policies[name].live_id
            notes = state.note_store.frozen(state.notes, live, its_id)
            kept = notes if state.note_store.has(notes, its_id) else ""
            plays = Plays(card_digests(self._context.roles), kept)
            snapshot = state.population.add(
                name, iteration, origin.parent, save, origin.origin, origin.parents, origin.how, plays
            )
            self._register(snapshot)
            state.notes = notes
            if name in state.origins:
                del state.origins[name]
            state.frozen_at[name] = iteration
            ratings.append(self._measurements.rate_snapshot(snapshot, earlier))
        metrics |= _means(ratings) | self._measurements.rate_teams() | self._measure(iteration)
        metrics |= language_metrics(self._config, {name: state.policies[name].lm for name in names})
        for name in names:
            if name in self._config.league_roles and resets_after(self._config, name, iteration):
                reset_exploiter(self._context, state, name)
        save_ratings(self._context.run_dir, state)
        return metrics

    def _origin(self, name: str, last: str | None) -> Beginning:
        """Return the origin of a policy whose weights were not replaced since its last snapshot."""
        if last is not None:
            return Beginning(Origin.TRAINED, last)
        league_role = LEAGUE_ROLES[self._config.policy(name).league_role]
        if league_role.bound or self._config.policy(name).frozen:
            return Beginning(Origin.START, None)
        origin = Origin.TRAINED if league_role.cooperates else Origin.EXPLOITER
        return Beginning(origin, initial_snapshot(self._config, self._state))

    def _gates(self, name: str, parent: str, iteration: int) -> Metrics:
        """Compare a policy with its last snapshot by the gates that are set; return their metrics, if any is set."""
        settings, metrics, promoted = self._config.evaluation, Metrics(), True
        if settings.gate is not None:
            gate_metrics, promoted = self._gate(name, parent, settings.gate)
            metrics |= gate_metrics
        if settings.gate_flips is not None:
            episodes = self._play(_all(self._gate_requests(name, parent, suite=True)))
            flips, pairs = find_flips(episodes, name, self._context.specs.__getitem__)
            fixed = sum(flip.fixed for flip in flips)
            metrics |= {f"{name}/flips/fixed": float(fixed), f"{name}/flips/broken": float(len(flips) - fixed)}
            promoted &= outweigh(flips, pairs, settings.gate_flips)
            record = {"parent": parent, "pairs": pairs, "flips": [flip._asdict() for flip in flips]}
            path = self._context.run_dir / FLIPS_FOLDER / f"{name}-{iteration:06d}.json"
            path.parent.mkdir(exist_ok=True)
            atomic_write(path, json.dumps(record, indent=2) + "\n")
        gated = settings.gate is not None or settings.gate_flips is not None
        return metrics | ({f"{name}/promoted": float(promoted)} if gated else {})

    def _gate(self, name: str, parent: str, confidence: float) -> tuple[Metrics, bool]:
        """Compare a policy with its last snapshot; return metrics, and whether it is better with this confidence."""
        by_game, scale_of = self._gate_requests(name, parent), self._context.scales.__getitem__
        if not self._config.evaluation.gate_until_decided:
            gain, error = estimate_gain(self._play(_all(by_game)), name, scale_of)
            return {f"{name}/gain": gain}, significantly_positive(gain, error, confidence)
        episodes, better = play_until_decided(self._play, by_game, name, self._span, confidence)
        gain, _ = estimate_gain(episodes, name, scale_of)
        return {f"{name}/gain": gain, f"{name}/gate_matches": float(len(episodes))}, better

    def _span(self, game: str) -> float:
        """Return the range of a game's returns."""
        spec = self._context.specs[game]
        return spec.max_return - spec.min_return

    def _gate_requests(self, name: str, parent: str, suite: bool = False) -> dict[str, list[MatchRequest]]:
        """Return a gate's matches, by game."""
        newest = {policy: self._state.population.newest(policy).id for policy in self._main_policies()}
        by_game: dict[str, list[MatchRequest]] = {}
        for game in self._context.specs:
            first = self._state.next_match + sum(map(len, by_game.values()))
            by_game[game] = gate_matches(self._context, name, parent, newest, game, first, suite)
        self._state.next_match += sum(map(len, by_game.values()))
        return by_game

    def _measure(self, iteration: int) -> Metrics:
        """Measure the population, set the next mixtures and meta-strategies, reset responders, retire snapshots."""
        measurement = self.measured = self._measurements.measure(iteration)
        self._state.mixtures, self._state.meta = measurement.mixtures, measurement.meta
        for game, meta in measurement.meta.items():
            self._reset_responders(measurement.meta_games[game], meta)
        self._retire()
        return measurement.metrics

    def _reset_responders(self, meta_game: MetaGame, meta: MetaStrategy) -> None:
        """Reset policies that respond to a meta-strategy to the snapshot that ``matchmaking.response_from`` names."""
        start = self._config.matchmaking.response_from
        if start == "newest" or not (meta.weights or meta.joint):
            return
        for name in self._main_policies():
            seat = next((role.seat for role in self._context.roles[meta_game.game] if role.policy == name), None)
            if seat is None or self._config.policy(name).frozen:
                continue
            ids = [snapshot.id for snapshot in self._state.population.all(name)]
            chosen = ids[0] if start == "first" else best_response_among(meta_game, meta, seat, set(ids))
            if chosen != ids[-1]:
                weights = self._state.policies[name].lm.with_weights(self._state.population.get(chosen).path)
                reset_weights(self._state, name, weights.parameters())
                weights.release()
                self._state.origins[name] = Beginning(Origin.RESPONSE, chosen)

    def _retire(self) -> None:
        """Retire each policy's oldest snapshots beyond ``matchmaking.keep``, except those that carry weight."""
        keep = self._config.matchmaking.keep
        if keep is None:
            return
        weights = [seat for by_seat in self._state.mixtures.values() for seat in by_seat]
        by_age = META_SOLVERS[self._config.evaluation.mixture].by_age
        needed = {player for seat in weights for player, weight in seat.items() if weight > 1e-9 and not by_age}
        for meta in self._state.meta.values():
            needed |= {player for player, weight in meta.weights.items() if weight > 1e-9}
            needed |= {player for lineup, _ in meta.joint for player in lineup}
        for name in self._state.policies:
            ids = [snapshot.id for snapshot in self._state.population.all(name)]
            active = [identity for identity in ids if identity not in self._state.retired]
            spare = [identity for identity in active[:-1] if identity not in needed]
            self._state.retired.update(spare[: max(len(active) - keep, 0)])

    def _register(self, snapshot: Snapshot) -> None:
        """Register a snapshot with the engine, which checks its files against their hashes when it loads them."""
        lm = self._state.policies[snapshot.policy].lm
        self._engine.register(snapshot.id, snapshot.path, partial(self._state.population.verify, snapshot), like=lm)

    def _main_policies(self) -> set[str]:
        """Return the main policies: those that roles are bound to."""
        return set(bound_policies(self._context.roles))


def _save(policy: Policy, folder: Path) -> None:
    """Save a policy's weights, or their running mean. Raises NotFinite for weights that could never play."""
    policy.save_model(folder)
    check_weights(policy.live_id, folder, live=True)


def _all(by_game: Mapping[str, Sequence[MatchRequest]]) -> list[MatchRequest]:
    return [request for requests in by_game.values() for request in requests]


def _means(rows: Sequence[Metrics]) -> Metrics:
    """Return the mean of each metric over the rows that have it."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: fmean(row[key] for row in rows if key in row) for key in keys}
