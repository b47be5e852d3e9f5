"""The loop. Each iteration is a list of verbs, and each verb reads only what earlier ones returned:

draw_matches -> play -> hand_over -> take -> record -> snapshot

The only backward edge is the payoff table, which the next draw reads. What is handed over are trajectories, and what
is taken are weights; ``league.learning`` says what happens in between (weigh -> credit_turns -> update_policies), here
or in other processes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from arena.records import Episode, MatchRequest, family
from arena.replays import save_episodes
from games.registry import make_game
from league.alarms import watch
from league.board import Board
from league.config import RunConfig
from league.freezing import exploiters_due
from league.interrupt import StopRequest
from league.learning import Learner, LearnsHere
from league.matchmaking import Meta, Scene, draw_matches
from league.matchmaking.self_play import moved_on
from league.progress import Progress
from league.repeated import counterfactuals
from league.run_state import RunState, publish, save_state
from league.snapshots import Snapshots
from league.start import Roles
from league.teams import live_cast, training_metrics
from league.updates import credit_metrics, learning_now
from league.venue import Here, Venue
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
        league.begin_learning()
        for iteration in range(state.iteration + 1, config.iterations + 1):
            started = time.perf_counter()
            for number in range(league.played() + 1, min(iteration + league.learner.ahead, config.iterations) + 1):
                requests = league.draw_matches(number)
                league.hand_over(number, league.play(requests))
            episodes = state.ahead.pop(iteration)
            trajectories, advantages, metrics = league.learner.take(iteration)
            metrics |= credit_metrics(config, trajectories, advantages)
            metrics |= league.record(episodes, iteration) | league.venue.metrics()
            metrics["tokens_per_second"] = league.tokens_played() / (time.perf_counter() - started)
            frozen = league.snapshot(iteration)
            if frozen:
                league.keep_episodes(episodes, iteration)
            metrics |= frozen
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

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path,
        roles: Roles,
        state: RunState,
        learner: Learner | None = None,
        venue: Venue | None = None,
    ) -> None:
        self.learner = learner or LearnsHere(config, state)
        self.config, self.run_dir, self.roles, self.state = config, run_dir, roles, state
        self.specs = {game: make_game(game).spec for game in config.games}
        self._all_specs = {game: make_game(game).spec for game in roles}  # with those that matches open
        self.scales = {
            game: return_scale(spec) if config.credit.scale_returns else 1.0 for game, spec in self._all_specs.items()
        }
        self._live = {game: tuple(role.policy for role in seated) for game, seated in roles.items()}
        self.venue = venue or Here(config, run_dir, roles, state.policies)
        self._engine = self.venue.engine
        self._tokens_before = 0
        for policy in state.policies.values():
            self._engine.add(policy.live_id, policy.lm)
        self._snapshots = Snapshots(config, run_dir, roles, self.specs, self.scales, state, self._engine, self.play)

    def close(self) -> None:
        """End what plays."""
        self.venue.close()

    def begin_learning(self) -> None:
        """Let learning begin, with what a resumed run had played before its turn."""
        self.learner.begin()
        for iteration, episodes in sorted(self.state.ahead.items()):
            self.hand_over(iteration, episodes)

    def played(self) -> int:
        """Return the last iteration whose matches have been played."""
        return max(self.state.ahead, default=self.state.iteration)

    def hand_over(self, iteration: int, episodes: list[Episode]) -> None:
        """Give an iteration's trajectories to whoever learns from them; keep its matches until its turn comes."""
        self._engine.rest()
        self.state.ahead[iteration] = episodes
        trajectories = to_trajectories(episodes, self.roles.__getitem__, self.scales)
        self.learner.give(
            iteration, counterfactuals(self.config, self.state.policies, self.scales, episodes, trajectories)
        )

    def draw_matches(self, iteration: int) -> list[MatchRequest]:
        """Return this iteration's matches of every game that is due."""
        members, kinds = self._snapshots.members(), self.config.exploiter_kinds
        learning = learning_now(self.config, list(self.state.policies), iteration)
        requests: list[MatchRequest] = []
        for game, settings in self.config.games.items():
            if (iteration - 1) % settings.every == 0:
                meta = self.state.meta.get(game, Meta())
                cast = live_cast(self.specs[game], self.roles, learning)
                live = moved_on(self._live[game], iteration, self.config.matchmaking.swap_every)
                drawn = draw_matches(
                    config=self.config.matchmaking,
                    exploiters=self.config.exploiters,
                    run_seed=self.config.seed,
                    iteration=iteration,
                    game=self.specs[game],
                    scene=Scene(game, live, members, self.state.payoffs.known, meta),
                    learning=[name for name in learning if name not in kinds],
                    exploiting={name: kinds[name] for name in learning if name in kinds},
                    matches=settings.matches,
                    first_index=self.state.next_match + len(requests),
                    below=any(any(one.trained) for one in cast),
                )
                requests += [one._replace(cast=cast) for one in drawn] if cast else drawn
        self.state.next_match += len(requests)
        return requests

    def play(self, requests: Sequence[MatchRequest]) -> list[Episode]:
        """Play matches with the weights of this moment; those that they open have live policies unless they say whose.

        The numbers that ``family`` gives to matches that were opened are not given again.
        """
        self._engine.forget()
        casts = {game: live_cast(spec, self.roles) for game, spec in self.specs.items()}
        episodes = self.venue.play([one if one.cast else one._replace(cast=casts[one.game]) for one in requests])
        self.state.next_match += len(family(episodes)) - len(episodes)
        return episodes

    def record(self, episodes: Sequence[Episode], iteration: int) -> Metrics:
        """Keep the matches and their results; return scores by role, and the rate of illegal replies."""
        self.state.iteration = iteration
        results = self.state.record(episodes)
        metrics: Metrics = {}
        for game, spec in self.specs.items():
            played = sum(episode.request.game == game for episode in episodes)
            if played:
                metrics[f"{game}/matches"] = float(played)
            for role in self.roles[game]:
                live = self._live[game]  # whichever of them sits there: they may swap
                own = [r for r in results if (r.game, r.role) == (game, role.name) and r.player in live]
                if own and spec.seats > 1:
                    metrics[f"{game}/score/{role.name}"] = sum(r.sum_score for r in own) / sum(r.n for r in own)
        for name in self.config.exploiter_kinds:
            own = [r for r in results if r.player == name]
            if own:
                metrics[f"{name}/score"] = sum(r.sum_score for r in own) / sum(r.n for r in own)
        metrics |= training_metrics(episodes, self._all_specs, self.roles)
        turns = [turn for e in family(episodes) for turn in e.turns if e.request.trained[turn.seat]]
        metrics["illegal_rate"] = sum(turn.action is None for turn in turns) / max(len(turns), 1)
        replies = [turn.trace.reply_ids for e in family(episodes) for turn in e.turns if turn.trace is not None]
        metrics["reply_tokens"] = float(sum(map(len, replies)))
        return metrics

    def snapshot(self, iteration: int) -> Metrics:
        """Freeze the policies that are due into the population and measure them; nothing where none is."""
        main = iteration % self.config.snapshot_every == 0 or iteration == self.config.iterations
        kinds = self.config.exploiter_kinds
        due = [name for name in self.state.policies if main and name not in kinds]
        if iteration:
            due += exploiters_due(self.config, self.state, self._snapshots.members(), self._live, iteration)
        return self._snapshots.freeze(due, iteration) if due else {}

    def keep_episodes(self, episodes: Sequence[Episode], iteration: int) -> None:
        """Save some of an iteration's episodes, the first of each game, for a person to read."""
        each = -(-self.config.episodes_kept // len(self.specs))
        kept = [e for game in self.specs for e in [e for e in episodes if e.request.game == game][:each]]
        save_episodes(self.run_dir / "episodes" / f"iteration-{iteration:06d}.jsonl", kept)

    def tokens_played(self) -> int:
        """Return the prompt and reply tokens sampled since the last call."""
        before, self._tokens_before = self._tokens_before, self._engine.tokens
        return self._tokens_before - before
