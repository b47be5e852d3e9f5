"""The loop. Each iteration is a list of verbs, and each verb reads only what earlier ones returned:

draw_matches -> play -> with_forks -> submit -> collect -> record -> snapshot -> report -> checkpoint

The only backward edge is the payoff table, which the next draw reads. ``submit`` sends trajectories to the learner, and
``collect`` brings its weights into the run's state; in between the learner does gather_evidence -> credit_turns ->
update_policies (``league.training.learning.learner``), in this process or in others.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from arena.records import Episode, MatchRequest, flatten_episodes
from games.registry import make_game
from league.config import RunConfig
from league.population.evaluation.teams import live_cast, training_metrics
from league.population.matchmaking import DrawContext, MetaStrategy, draw_matches, matches_by_game
from league.population.matchmaking.self_play import rotate_seats
from league.population.storage.sampled_matches import SampledMatch, sample_matches, save_samples
from league.training.backends.local import LocalRollouts
from league.training.board.board import Board, Frozen
from league.training.board.comparison import compare_population
from league.training.checkpoints.checkpoint import publish, save_checkpoint
from league.training.checkpoints.run_state import RunState
from league.training.evidence.beliefs import belief_metrics
from league.training.evidence.branched import with_forks
from league.training.evidence.continued import play_on
from league.training.evidence.from_play import evidence_from_play
from league.training.evidence.preferences import Judges
from league.training.evidence.shaping import agreement_metrics, with_shaping
from league.training.evidence.teachers import Teachers
from league.training.interfaces import Learner, LearnResult, RolloutBackend
from league.training.learning.iteration import credit_metrics, learning_now
from league.training.learning.learner import InProcessLearner
from league.training.learning.proposals import proposal_metrics
from league.training.learning.starts import record_starts, with_starts
from league.training.loop.failures import stop_if_going_wrong
from league.training.loop.interrupt import StopRequest
from league.training.monitors.alarms import Alarm, check_alarms
from league.training.monitors.conduct import conduct_metrics, observe_conduct, reply_metrics
from league.training.monitors.live_view import LiveView
from league.training.monitors.phases import clock_of_models, counts_as
from league.training.monitors.scores import count_metrics, score_metrics
from league.training.monitors.strategy_alarms import Verdict, judge_cycles
from league.training.snapshots.distilling import distil_if_due
from league.training.snapshots.exploiter_cycle import exploiters_due
from league.training.snapshots.freeze import Snapshots
from league.training.snapshots.judged_games import judge_games
from learners.trajectories import return_scale, to_trajectories
from roles.role import Roles, given_names

Metrics = dict[str, float]


def run_loop(league: League, stop: StopRequest) -> bool:
    """Train from the state's iteration to the configured last one; return False if stopped before.

    A kill loses at most the iteration since the last checkpoint. The checkpoint comes last in an iteration, after the
    log of metrics: lines beyond the checkpoint can be removed on resuming, but missing lines could not be recovered.
    """
    state, config = league.state, league.config
    if not state.population:
        league.report(0, None, None, league.snapshot(0))
        league.checkpoint()
    league.start_learning()
    for iteration in range(state.iteration + 1, config.iterations + 1):
        for due in league.iterations_to_play(iteration):
            whole = league.play(league.draw_matches(due))
            league.submit(due, with_forks(config, state, league.roles, league.play, whole))
        learned = league.collect(iteration)
        results = league.record(iteration, learned)
        snapshot = league.snapshot(iteration)
        league.report(iteration, learned, results, snapshot)
        league.checkpoint()
        stop_if_going_wrong(config, state)
        if stop.requested:
            break
    publish(league.run_dir, state)
    return state.iteration >= config.iterations


class Results(NamedTuple):
    """The results of an iteration's matches."""

    episodes: Sequence[Episode]
    metrics: Metrics


class League:
    """The verbs of the loop, over one run's state. Without a ``view`` nothing is shown."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path,
        roles: Roles,
        state: RunState,
        learner: Learner | None = None,
        rollouts: RolloutBackend | None = None,
        view: LiveView | None = None,
        teachers: Teachers | None = None,
        judges: Judges | None = None,
    ) -> None:
        self.learner, self._teachers, self._judges = learner or InProcessLearner(config, state), teachers, judges
        self.config, self.run_dir, self.roles, self.state = config, run_dir, roles, state
        self.specs = {game: make_game(game).spec for game in config.games}
        self._all_specs = {game: make_game(game).spec for game in roles}  # submatches' games too
        self.scales = {
            game: return_scale(spec) if config.credit.scale_returns else 1.0 for game, spec in self._all_specs.items()
        }
        self._live = {game: tuple(role.policy for role in game_roles) for game, game_roles in roles.items()}
        self.rollouts = rollouts or LocalRollouts(config, run_dir, roles, state.policies)
        self._engine, self.view = self.rollouts.engine, view
        self.phases = clock_of_models({(model.device, model.dtype) for model in map(config.model_of, state.policies)})
        self._board = Board(config, run_dir, self.specs, roles, state, self.phases)
        self._started, self._tokens_before = time.perf_counter(), 0
        for policy in state.policies.values():
            self._engine.add(policy.live_id, policy.lm)
        plays = self._engine, self.play, self.rollouts.given
        self._snapshots = Snapshots(config, run_dir, roles, self.specs, self.scales, state, *plays)

    def close(self) -> None:
        """Close the rollout backend and the log."""
        self._board.close()
        self.rollouts.close()

    def start_learning(self) -> None:
        """Start the learner, and submit what a resumed run had played ahead."""
        self.learner.begin()
        for iteration, episodes in sorted(self.state.played_ahead.items()):
            self.submit(iteration, episodes)

    def iterations_to_play(self, iteration: int) -> range:
        """Return the iterations whose matches are to be played before this one is collected.

        These are the iteration itself and those up to the learner's lead, without those that were played before.
        """
        self._started = time.perf_counter()
        played = max(self.state.played_ahead, default=self.state.iteration)
        return range(played + 1, min(iteration + self.learner.lead, self.config.iterations) + 1)

    @counts_as("play")
    def draw_matches(self, iteration: int) -> list[MatchRequest]:
        """Return an iteration's match requests, of every game that is due."""
        members, kinds, given = self._snapshots.members(), self.config.league_roles, frozenset(given_names(self.roles))
        learning = learning_now(self.config, list(self.state.policies), iteration)
        requests: list[MatchRequest] = []
        for game, matches in matches_by_game(self.config, self.specs, self.state.judged.active, iteration).items():
            meta = self.state.meta.get(game, MetaStrategy())
            cast = live_cast(self.specs[game], self.roles, learning)
            live = rotate_seats(self._live[game], iteration, self.config.matchmaking.swap_every)
            drawn = draw_matches(
                config=self.config.matchmaking,
                exploiters=self.config.exploiters,
                run_seed=self.config.seed,
                iteration=iteration,
                game=self.specs[game],
                context=DrawContext(game, live, members, self.state.payoffs.pair_record, meta, given),
                learning=[name for name in learning if name not in kinds],
                exploiting={name: kinds[name] for name in learning if name in kinds},
                matches=matches,
                first_index=self.state.next_match + len(requests),
                trains_in_submatches=any(any(below.trained) for below in cast),
            )
            drawn = with_starts(self.config, self.state.starts, drawn, iteration)
            requests += [request._replace(cast=cast) for request in drawn] if cast else drawn
        self.state.next_match += len(requests)
        return requests

    @counts_as("play")
    def play(self, requests: Sequence[MatchRequest]) -> list[Episode]:
        """Play matches with the present weights; submatches have live policies unless a request has its own cast.

        ``flatten_episodes`` numbers submatches after the matches, so the next match's index moves on by them too.
        """
        self._engine.refresh()
        casts = {game: live_cast(spec, self.roles) for game, spec in self.specs.items()}
        requests = [request if request.cast else request._replace(cast=casts[request.game]) for request in requests]
        episodes = self.rollouts.play(requests)
        self.state.next_match += len(flatten_episodes(episodes)) - len(episodes)
        return episodes

    @counts_as("learn")
    def submit(self, iteration: int, episodes: list[Episode]) -> None:
        """Give an iteration's trajectories and evidence to the learner; keep its matches until its turn comes."""
        episodes = with_shaping(self.config, self.roles, self._judges, iteration, episodes)
        trajectories = to_trajectories(episodes, self.roles.__getitem__, self.scales)
        played_on = play_on(self.config, self.rollouts, self.roles, self.scales, iteration, episodes, trajectories)
        self._engine.sleep()
        self.state.played_ahead[iteration] = episodes
        settings = self.config, self.state.policies, self.roles, self.scales, self._teachers
        self.learner.submit(iteration, trajectories, evidence_from_play(*settings, played_on, episodes, trajectories))

    def collect(self, iteration: int) -> LearnResult:
        """Wait for an iteration's learning; the policies of the run's state are then as after it."""
        with self.phases.phase("learn" if isinstance(self.learner, InProcessLearner) else "wait"):
            return self.learner.collect(iteration)

    def record(self, iteration: int, learned: LearnResult) -> Results:
        """Record an iteration's matches and results; return them with the metrics of playing and learning."""
        self.state.iteration = iteration
        episodes = self.state.played_ahead.pop(iteration)
        metrics = learned.metrics | credit_metrics(self.config, learned.trajectories, learned.advantages)
        recorded = self.state.record([episode for episode in episodes if not episode.request.fork])
        metrics |= count_metrics(episodes, self.specs)
        metrics |= score_metrics(recorded, self.specs, self.roles, self._live, self.config.league_roles)
        metrics |= training_metrics(episodes, self._all_specs, self.roles)
        metrics |= belief_metrics(episodes, self.roles) | agreement_metrics(self.config, episodes, self.roles)
        metrics |= reply_metrics(episodes) | self.rollouts.metrics() | proposal_metrics(episodes, self.specs)
        metrics |= record_starts(self.config, self.roles, self._all_specs, self.state.starts, episodes, iteration)
        before, self._tokens_before = self._tokens_before, self._engine.tokens
        metrics["tokens_per_second"] = (self._tokens_before - before) / (time.perf_counter() - self._started)
        return Results(episodes, metrics)

    @counts_as("evaluate")
    def snapshot(self, iteration: int) -> Metrics:
        """Freeze the policies that are due into the population, and return their measurements; empty if none is."""
        main = iteration % self.config.snapshot_every == 0 or iteration == self.config.iterations
        kinds = self.config.league_roles
        due = [name for name in self.state.policies if main and name not in kinds]
        if iteration:
            if main:  # partners come first, so that new main snapshots are rated with strangers as old as they are
                due = [name for name, kind in kinds.items() if kind == "partner"] + due
            due += exploiters_due(self.config, self.state, self._snapshots.members(), self._live, iteration)
        if not due:
            return {}
        measured = self._snapshots.freeze(due, iteration) | distil_if_due(self.config, self.run_dir, iteration)
        if main:
            tell = self.view.print_line if self.view is not None else None
            measured |= judge_games(self.config, self.roles, self.specs, self.state, self.play, tell)
        return measured or {"snapshots": float(len(self.state.population.all()))}  # where nothing is to be measured

    def report(self, iteration: int, learned: LearnResult | None, results: Results | None, snapshot: Metrics) -> None:
        """Log and show an iteration and its alarms; after a snapshot, save some of its episodes.

        Iteration 0 has only a snapshot.
        """
        frozen = self._frozen(learned) if snapshot else None
        metrics, alarms = snapshot, list[Alarm]()
        if learned is not None and results is not None:
            metrics, alarms = self._watch(iteration, learned, results.metrics | snapshot, frozen)
        with self.phases.phase("log"):
            samples = list[SampledMatch]()
            if learned is not None and results is not None and snapshot:
                samples = self._save_samples(results.episodes, learned, iteration)
            played = results.episodes if results is not None else ()
            self._board.write(iteration, metrics, alarms, frozen, samples, bool(snapshot), played)
        if self.view is not None:
            self.view.update(iteration - 1, metrics, alarms)

    @counts_as("watch")
    def _watch(
        self, iteration: int, learned: LearnResult, metrics: Metrics, frozen: Frozen | None
    ) -> tuple[Metrics, list[Alarm]]:
        """Return an iteration's metrics, with those of time, conduct and alarms, and the alarms that ring."""
        alarms, alarm_metrics, self.state.alarms = check_alarms(
            iteration,
            learned.trajectories,
            learned.advantages,
            metrics,
            self.roles,
            self.state.alarms,
            self.config.alarms,
            self._cycles(frozen),
        )
        conduct = conduct_metrics(frozen.conducts) if frozen else {}
        seconds = {"seconds": time.perf_counter() - self._started}
        return metrics | conduct | self.phases.metrics() | seconds | alarm_metrics, alarms

    @counts_as("save")
    def checkpoint(self) -> None:
        """Save the run's state; when this returns, a kill loses nothing before it."""
        save_checkpoint(self.run_dir, self.state, self.config.checkpoints)

    @counts_as("watch")
    def _frozen(self, learned: LearnResult | None) -> Frozen | None:
        """Return what the board shows of a snapshot beside its metrics."""
        measured = self._snapshots.measured
        if measured is None:
            return None
        conducts = observe_conduct(learned.trajectories, learned.advantages, self.roles) if learned else []
        comparisons = compare_population(self.config, self.specs, self.state, measured)
        return Frozen(measured, comparisons, conducts)

    def _cycles(self, frozen: Frozen | None) -> list[Verdict]:
        """Return the verdicts on cycles of the population, where it was compared."""
        comparisons = frozen.comparisons if frozen else {}
        wins = [win for comparison in comparisons.values() for win in comparison.wins()]
        return judge_cycles(list(comparisons), wins, self.config.alarms)

    def _save_samples(self, episodes: Sequence[Episode], learned: LearnResult, iteration: int) -> list[SampledMatch]:
        """Save some of an iteration's matches of each game, for a person to read, and return them."""
        per_game = -(-self.config.episodes_kept // len(self.specs))
        samples = sample_matches(episodes, learned.trajectories, learned.advantages, iteration, per_game)
        save_samples(self.run_dir, iteration, samples)
        return samples
