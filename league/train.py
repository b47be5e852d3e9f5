"""The loop. Each iteration is a list of verbs, and each verb reads only what earlier ones returned:

draw_matches -> play -> to_trajectories -> credit_turns -> update_policies -> record -> snapshot

The only backward edge is the payoff table, which the next draw reads.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from arena.records import Episode, MatchRequest
from arena.replays import save_episodes
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from games.registry import make_game
from league.alarms import watch
from league.board import Board
from league.config import RunConfig
from league.evaluation import Tables, anchor_engines, exact_metrics, profiles, rating_matches, score_against
from league.interrupt import StopRequest
from league.matchmaking.draw import draw_matches
from league.payoffs import summarise
from league.population import Snapshot
from league.progress import Progress
from league.run_state import STATE_FOLDER, RunState, publish, save_ratings, save_state
from league.start import Roles
from league.updates import credit_metrics, credit_turns, estimate_values, learning_now, update_policies
from learners.trajectories import return_scale, to_trajectories

Metrics = dict[str, float]


def run_loop(league: League, progress: Progress, stop: StopRequest) -> bool:
    """Train from the state's iteration to the configured last one; return False if asked to stop before.

    The state is saved at the end of every iteration, so a kill at any moment loses at most the current
    one. It comes last: what the board has beyond the state is cut off on resuming, what it lacks is lost.
    """
    state, config = league.state, league.config
    with Board(league.run_dir, resume_at=state.iteration + 1 if state.population else 0) as board:
        if not state.population:
            first = league.snapshot(0)
            board.write(0, first)
            save_state(league.run_dir, state)
            progress.update(-1, first)
        for iteration in range(state.iteration + 1, config.iterations + 1):
            started = time.perf_counter()
            requests = league.draw_matches(iteration)
            episodes = league.play(requests)
            trajectories = to_trajectories(episodes, league.roles.__getitem__, league.scales)
            trajectories = estimate_values(config, state, trajectories)
            advantages = credit_turns(config, state, trajectories)
            metrics = update_policies(config, state, trajectories, advantages, iteration)
            metrics |= credit_metrics(config, trajectories, advantages)
            metrics |= league.record(episodes, iteration)
            metrics["tokens_per_second"] = league.tokens_played() / (time.perf_counter() - started)
            if iteration % config.snapshot_every == 0 or iteration == config.iterations:
                metrics |= league.snapshot(iteration)
                league.keep_episodes(episodes, iteration)
            metrics["seconds"] = time.perf_counter() - started
            alarms, rung, state.alarms = watch(
                iteration, trajectories, advantages, metrics, league.roles, state.alarms, config.alarms
            )
            board.write(iteration, metrics | rung, alarms)
            save_state(league.run_dir, state)
            progress.update(iteration - 1, metrics, alarms)
            if stop.asked:
                break
    publish(league.run_dir, state)
    return state.iteration >= config.iterations


class League:
    """The verbs of the loop, over one run's state."""

    def __init__(self, config: RunConfig, run_dir: Path, roles: Roles, state: RunState) -> None:
        self.config, self.run_dir, self.roles, self.state = config, run_dir, roles, state
        self.specs = {game: make_game(game).spec for game in config.games}
        self.scales = {
            game: return_scale(spec) if config.credit.scale_returns else 1.0 for game, spec in self.specs.items()
        }
        self._tables = Tables(run_dir / STATE_FOLDER / "tables", config.evaluation.exact_limit)
        self._engine = TorchLM(device=config.model.device, dtype=config.model.dtype, loaded=config.loaded_snapshots)
        self._anchors = anchor_engines(config.evaluation)
        self._tokens_before = 0
        for policy in state.policies.values():
            self._engine.add(policy.live_id, policy.lm)
        for snapshot in state.population.all():
            self._seat(snapshot)

    def draw_matches(self, iteration: int) -> list[MatchRequest]:
        """Return this iteration's matches of every game that is due."""
        past = {name: [s.id for s in self.state.population.all(name)] for name in self.state.policies}
        learning = learning_now(self.config, list(self.state.policies), iteration)
        requests: list[MatchRequest] = []
        for game, settings in self.config.games.items():
            if (iteration - 1) % settings.every == 0:
                requests += draw_matches(
                    config=self.config.matchmaking,
                    run_seed=self.config.seed,
                    iteration=iteration,
                    game=self.specs[game],
                    live=tuple(self.state.policies[role.policy].live_id for role in self.roles[game]),
                    learning=learning,
                    past=past,
                    win_rate=self.state.payoffs.win_rate,
                    matches=settings.matches,
                    first_index=self.state.next_match + len(requests),
                )
        self.state.next_match += len(requests)
        return requests

    def play(self, requests: Sequence[MatchRequest]) -> list[Episode]:
        """Play matches with the weights of this moment."""
        self._engine.forget()
        return play(
            requests,
            roles_of=self.roles.__getitem__,
            engine_of=lambda player: self._anchors.get(player, self._engine),
            make_game=make_game,
            in_flight=self.config.in_flight,
        )

    def record(self, episodes: Sequence[Episode], iteration: int) -> Metrics:
        """Fold the matches into the payoff table; return scores by role and the rate of illegal replies."""
        self.state.iteration = iteration
        results = summarise(episodes, iteration)
        self.state.record(results)
        metrics: Metrics = {}
        for game, spec in self.specs.items():
            played = sum(episode.request.game == game for episode in episodes)
            if played:
                metrics[f"{game}/matches"] = float(played)
            for role in self.roles[game]:
                own = [r for r in results if (r.game, r.role) == (game, role.name) and r.player in self.state.policies]
                if own and spec.seats > 1:
                    metrics[f"{game}/score/{role.name}"] = sum(r.sum_score for r in own) / sum(r.n for r in own)
        turns = [turn for e in episodes for turn in e.turns if e.request.trained[turn.seat]]
        metrics["illegal_rate"] = sum(turn.action is None for turn in turns) / max(len(turns), 1)
        return metrics

    def snapshot(self, iteration: int) -> Metrics:
        """Freeze every policy into the population and measure it; one that never trains, only once."""
        population, rated = self.state.population, []
        earlier = population.all()
        for name, policy in self.state.policies.items():
            parent = next((one.id for one in reversed(earlier) if one.policy == name), None)
            if parent and self.config.policy(name).frozen:
                continue
            snapshot = population.add(name, iteration, parent, policy.lm.save)
            self._seat(snapshot)
            rated.append(self._rate(snapshot, earlier))
        metrics = _means(rated)
        metrics |= self._exact()
        save_ratings(self.run_dir, self.state)
        publish(self.run_dir, self.state)
        return metrics

    def _exact(self) -> Metrics:
        """Return the exact values of the newest snapshots and of the mixture so far, in games small enough."""
        metrics: Metrics = {}
        config, population = self.config, self.state.population
        for game, spec in self.specs.items() if config.evaluation.exact else ():
            past = profiles(population.all(), self.roles[game])
            table = self._tables.add(past[-1], spec, self._engine, self.roles[game], config.seed)
            if table is not None:
                metrics |= exact_metrics(config.evaluation, spec, table, self._tables, past, self.state.payoffs)
        return metrics

    def keep_episodes(self, episodes: Sequence[Episode], iteration: int) -> None:
        """Save some of an iteration's episodes, the first of each game, for a person to read."""
        each = -(-self.config.episodes_kept // len(self.specs))
        kept = [e for game in self.specs for e in [e for e in episodes if e.request.game == game][:each]]
        save_episodes(self.run_dir / "episodes" / f"iteration-{iteration:06d}.jsonl", kept)

    def tokens_played(self) -> int:
        """Return the prompt and reply tokens sampled since the last call."""
        before, self._tokens_before = self._tokens_before, self._engine.tokens
        return self._tokens_before - before

    def _seat(self, snapshot: Snapshot) -> None:
        """Let a snapshot play, once its files have been checked against their hashes."""
        lm = self.state.policies[snapshot.policy].lm
        self._engine.register(snapshot.id, snapshot.path, partial(self.state.population.verify, snapshot), like=lm)

    def _rate(self, snapshot: Snapshot, earlier: Sequence[Snapshot]) -> Metrics:
        """Play the rating matches of a new snapshot; return its rating and its scores against the anchors."""
        requests = rating_matches(
            self.config.evaluation,
            run_seed=self.config.seed,
            snapshot=snapshot,
            earlier=earlier,
            specs=list(self.specs.values()),
            roles=self.roles,
            first_index=self.state.next_match,
        )
        self.state.next_match += len(requests)
        episodes = self.play(requests)
        self.state.ratings.fold(episodes)
        results = summarise(episodes, self.state.iteration)
        self.state.record(results)
        played = [game for game in self.specs if snapshot.policy in {role.policy for role in self.roles[game]}]
        metrics: Metrics = {"rating": fmean(self.state.ratings.rating(snapshot.id, game)[0] for game in played)}
        for game in self.specs:
            for anchor in self._anchors:
                score = score_against(results, snapshot.id, anchor, game)
                if score is not None:
                    metrics[f"{game}/score_against_{anchor}"] = score
        return metrics


def _means(measured: Sequence[Metrics]) -> Metrics:
    """Return the mean of each metric over those that have it."""
    keys = dict.fromkeys(key for one in measured for key in one)
    return {key: fmean(one[key] for one in measured if key in one) for key in keys}
