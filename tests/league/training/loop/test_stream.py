"""Matches that flow: what a batch is, which weights play, and that a killed stream continues as it was recorded."""

import json
import random
import shutil
import signal
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from support.processes.runs import TINY, TrainingProcess, contents, league_train

from arena.records import EndReason, Episode, MatchRequest, TokenTrace, Turn
from games.common.errors import UsageError
from league.config import RunConfig
from league.config.load import load
from league.training.board.metrics_log import read_metrics
from league.training.checkpoints.checkpoint import folder_of
from league.training.checkpoints.run_state import StreamBatch
from league.training.evidence.preferences import PendingAnswers
from league.training.loop import stream
from league.training.loop.loop import League
from league.training.loop.stream import ARRIVALS_FILE, Stream
from learners.trajectories import Trajectory

STREAM = """
checkpoints = 50
in_flight = 8
objective.truncate = 2.0
optimizer.max_gap = 1.0
async_learners = { mode = "stream", max_staleness = 2 }
"""

SINCE = {1: 4, 2: 9, 3: 15, 4: 18}  # the first match of each version


class Engine:
    """The versions that an engine is told to keep."""

    def __init__(self):
        self.kept, self.most = {}, 0

    def keep(self, name, player, lm):
        assert name not in self.kept
        self.kept[name] = lm.version
        self.most = max(self.most, len(self.kept))

    def drop(self, name):
        del self.kept[name]


class Flows:
    """Plays matches, each for as many rounds as ``length`` says; replies carry the version that was kept."""

    def __init__(self, length, in_flight=4):
        self.engine, self._length, self._in_flight = Engine(), length, in_flight
        self.busy = self.rounds = 0

    def flow(self, requests):
        under_way = {}
        while True:
            while len(under_way) < self._in_flight and (request := next(requests, None)) is not None:
                under_way[request.index] = [request, self._length(request.index)]
            if not under_way:
                return
            self.busy, self.rounds = self.busy + len(under_way), self.rounds + 1
            for one in under_way.values():
                one[1] -= 1
            ended = [index for index, (_, left) in under_way.items() if left <= 0]
            yield [self._episode(under_way.pop(index)[0]) for index in ended]

    def _episode(self, request):
        player = request.players[0]
        trace = TokenTrace(player, (1,), (2,), (0.0,), None)
        assert "~" not in player or player in self.engine.kept
        turn = Turn(0, "r", player, "", ("a",), "a", "a", 0.0, trace)
        return Episode(request, (turn,), (0.0,), EndReason.FINISHED)


def streamed(tmp_path, flows, iterations, matches=6, staleness=0, learn=lambda batch: None, **settings):
    """Play a run of ``iterations`` batches; return the batches, each with the ages of its trajectories."""
    tmp_path.joinpath("state").mkdir(exist_ok=True)
    table = {"mode": "stream", "max_staleness": staleness, **settings}
    config = RunConfig.model_validate({"games": {"kuhn_poker": {}}, "iterations": iterations, "async_learners": table})
    policy = SimpleNamespace(updates=0, lm=SimpleNamespace(version=0))
    state = SimpleNamespace(iteration=0, since={}, streaming={}, policies={"main": policy}, next_match=0)

    def draw(iteration):
        first, state.next_match = state.next_match, state.next_match + matches
        return [
            MatchRequest(index, "kuhn_poker", iteration, index, ("main", "x"), (True, False))
            for index in range(first, first + matches)
        ]

    stream, batches = Stream(config, tmp_path, state, flows, draw), []
    stream.updated()
    for iteration in range(1, iterations + 1):
        episodes = stream.batch(iteration)
        trajectories = [
            Trajectory("g", "r", "main", 0, e.request.index, 0, e.request.players, e.turns, (0.0,), 0.0)
            for e in episodes
        ]
        batches.append((episodes, stream.ages(trajectories), stream.fresh(trajectories)))
        learn(episodes)
        state.iteration = policy.updates = policy.lm.version = iteration
        stream.updated()
    return batches


def test_a_batch_is_what_was_drawn_for_it_however_long_its_matches_take(tmp_path):
    lengths = random.Random(0)
    batches = streamed(tmp_path, Flows(lambda index: lengths.choice([1, 1, 1, 30])), 20, staleness=3)
    for number, (episodes, _, _) in enumerate(batches):
        assert [episode.request.index for episode in episodes] == list(range(6 * number, 6 * number + 6))
        assert all(episode.request.players == ("main", "x") for episode in episodes)
        assert all(turn.player == "main" and turn.trace.snapshot == "main" for e in episodes for turn in e.turns)


@pytest.mark.parametrize(("staleness", "ahead"), [(0, 0), (1, 1), (3, 3), (1, 4), (0, 2)])
def test_no_trajectory_is_older_than_the_bound_in_ten_thousand(tmp_path, staleness, ahead):
    lengths = random.Random(staleness)
    flows = Flows(lambda index: int(lengths.lognormvariate(1.0, 1.5)) + 1, in_flight=9)
    batches = streamed(tmp_path, flows, 334, staleness=staleness, begin_ahead=ahead)
    ages = [age for _, of_batch, _ in batches for age in of_batch]
    kept = [len(fresh) for _, _, (fresh, _) in batches]
    assert len(ages) == 2004
    assert max(ages) <= ahead
    assert sum(kept) == sum(age <= staleness for age in ages)
    assert sum(m.get("staleness/dropped", 0) for *_, (_, m) in batches) == sum(age > staleness for age in ages)
    assert flows.engine.most <= ahead + 2
    if ahead > staleness:
        assert sum(kept) < len(ages)
        again = (
            streamed(
                tmp_path / "kept", Flows(flows._length, 9), 20, staleness=staleness, begin_ahead=ahead, too_old="keep"
            )
            if (tmp_path / "kept").mkdir() is None
            else []
        )
        assert all(len(fresh) == 6 for *_, (fresh, _) in again)


def test_a_resumed_stream_plays_each_match_with_the_weights_that_its_record_names(tmp_path, monkeypatch):
    """One match at a time, so that no version is in use while one ends and the next has not started."""

    def former(_run_dir, version, _policy):
        return SimpleNamespace(version=version, release=lambda: None)

    monkeypatch.setattr(stream, "weights_after", former)
    (tmp_path / "state").mkdir()
    record = tmp_path / "state" / ARRIVALS_FILE
    record.write_text("".join(f'{{"version": {v}, "from": {first}}}\n' for v, first in SINCE.items()))
    requests = [MatchRequest(i, "kuhn_poker", 4, i, ("main", "x"), (True, False)) for i in range(12, 18)]
    policy = SimpleNamespace(updates=3, lm=SimpleNamespace(version=3))
    since = {version: first for version, first in SINCE.items() if version <= 3}
    batches = {4: StreamBatch(requests, {})}
    state = SimpleNamespace(iteration=3, since=since, streaming=batches, policies={"main": policy}, next_match=18)
    table = {"mode": "stream", "max_staleness": 3}
    config = RunConfig.model_validate({"games": {"kuhn_poker": {}}, "iterations": 9, "async_learners": table})
    resumed = Stream(config, tmp_path, state, Flows(lambda _: 1, in_flight=1), lambda _: [])
    episodes = resumed.batch(4)
    assert [episode.turns[0].trace.version for episode in episodes] == [2, 2, 2, 3, 3, 3]
    mixed = episodes[0]._replace(turns=(episodes[3].turns[0], episodes[0].turns[0]))
    policy.updates = 4
    old = [Trajectory("g", "r", "main", 0, e.request.index, 0, ("main",), e.turns, (0.0,), 0.0) for e in (mixed,)]
    assert resumed.ages(old) == [2], "of the oldest of its turns"
    state.iteration = policy.lm.version = 4
    resumed.updated()
    assert state.since == {1: 4, 2: 9, 3: 15, 4: 18}, "a batch may be three versions old"
    resumed._feed._versions.record(2, 8)
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert lines == [{"version": 1, "from": 4}, {"version": 2, "from": 8}], "what came later is no more"


def test_what_a_kill_has_lost_is_played_again_with_its_weights_even_after_an_update(tmp_path):
    """Matches 12, 13 and 16 had ended with version 3; 14 begins again, and 15 only after the next update."""
    (tmp_path / "state").mkdir()
    requests = [MatchRequest(i, "kuhn_poker", 4, i, ("main", "x"), (True, False)) for i in range(12, 18)]
    policy = SimpleNamespace(updates=3, lm=SimpleNamespace(version=3))
    ended = {i: Episode(requests[i - 12], (), (0.0,), EndReason.FINISHED) for i in (12, 13, 16)}
    batches = {5: StreamBatch(requests, ended)}
    state = SimpleNamespace(
        iteration=3, since={2: 6, 3: 12}, streaming=batches, policies={"main": policy}, next_match=18
    )
    table = {"mode": "stream", "max_staleness": 3}
    config = RunConfig.model_validate({"games": {"kuhn_poker": {}}, "iterations": 9, "async_learners": table})
    resumed = Stream(config, tmp_path, state, Flows(lambda _: 1, in_flight=1), lambda _: [])
    resumed._advance()
    resumed._advance()
    state.iteration = policy.updates = policy.lm.version = 4
    resumed.updated()
    episodes = resumed.batch(5)
    assert {e.request.index: e.turns[0].trace.version for e in episodes if e.turns} == {14: 3, 15: 3, 17: 4}
    assert state.since[4] == 17


def test_places_are_used_while_the_longest_match_of_a_batch_is_played(tmp_path):
    """One match in twelve takes 20 rounds, the others one: taking turns, most places wait for it."""
    used = {}
    for ahead in (0, 3):
        folder = tmp_path / str(ahead)
        folder.mkdir()
        flows = Flows(lambda index: 20 if index % 12 == 5 else 1, in_flight=4)
        streamed(folder, flows, 40, matches=12, staleness=ahead)
        used[ahead] = flows.busy / (4 * flows.rounds)
    assert used[0] < 0.4 < 0.6 < used[3]


def test_matches_go_on_while_a_judge_is_waited_for(tmp_path):
    """A judge of batch 1 who answers when batch 3 has been played to its end."""
    (tmp_path / "state").mkdir()
    policy = SimpleNamespace(updates=0, lm=SimpleNamespace(version=0))
    state = SimpleNamespace(iteration=0, since={}, streaming={}, policies={"main": policy}, next_match=18)
    table = {"mode": "stream", "max_staleness": 2}
    config = RunConfig.model_validate({"games": {"kuhn_poker": {}}, "iterations": 9, "async_learners": table})
    flowing = Stream(
        config,
        tmp_path,
        state,
        Flows(lambda _: 3),
        lambda n: [MatchRequest(i, "kuhn_poker", n, i, ("main", "x"), (True, False)) for i in range(6 * n - 6, 6 * n)],
    )
    flowing.updated()

    class Slow(Future):
        def done(self):
            return len(state.streaming[3].episodes) == 6

    judges = SimpleNamespace(
        ask=lambda episodes: PendingAnswers([Slow()], lambda: [e._replace(preferred=(1.0,)) for e in episodes])
    )
    judged = League._judged(SimpleNamespace(_judges=judges, _stream=flowing), flowing.batch(1))
    assert [(e.request.index, e.preferred) for e in judged] == [(i, (1.0,)) for i in range(6)]


P, LONG, MATCHES, ARMS = 0.5, 10, 32, (0.2, 0.8)


def arm(index):
    """Return the arm that a match draws: its own seed decides, not how long it takes."""
    return int(random.Random(index).random() < P)


def gradient(indices):
    """Return the mean of reward times the score of p, the probability of the slow arm 1: d log p / d logit."""
    return sum(ARMS[arm(i)] * (arm(i) - P) for i in indices) / len(indices)


def test_the_gradient_of_a_bandit_whose_better_arm_is_slow_is_the_synchronous_one(tmp_path):
    """Closed form: E[r (a - p)] = p (1 - p) (r1 - r0) = 0.15, whatever the arms take."""
    assert P * (1 - P) * (ARMS[1] - ARMS[0]) == pytest.approx(0.15)
    flows = Flows(lambda index: LONG if arm(index) else 1, in_flight=16)
    batches = streamed(tmp_path, flows, 200, matches=MATCHES, staleness=3)
    ours = [gradient([episode.request.index for episode in episodes]) for episodes, *_ in batches]
    turns = [gradient(range(MATCHES * number, MATCHES * (number + 1))) for number in range(200)]
    assert ours == turns
    assert sum(ours) / len(ours) == pytest.approx(0.15, abs=0.02)


def test_the_matches_that_end_first_would_turn_the_bandit_to_its_worse_arm():
    """Closed form: of sixteen places the first eight matches that end are all fast, so the mean is -p r0 = -0.1."""
    rng, seen = random.Random(0), []
    for _ in range(400):  # updates; what is under way at one is too old for the next
        places = [(LONG if (a := int(rng.random() < P)) else 1, a) for _ in range(16)]
        ended = []
        while len(ended) < 8:
            places.sort()
            clock, a = places.pop(0)
            ended.append(a)
            a = int(rng.random() < P)
            places.append((clock + (LONG if a else 1), a))
        seen += ended
    assert sum(ARMS[a] * (a - P) for a in seen) / len(seen) == pytest.approx(-P * ARMS[0], abs=0.01)


def test_settings_that_do_not_flow_are_refused():
    for settings, message in (
        (["async_learners.mode=turns", "async_learners.max_staleness=1"], "mode = 'turns' learns from each"),
        (["async_learners.begin_ahead=1"], "is for a stream"),
        (["async_learners.mode=stream", "branching.rule=entropy"], "cannot be combined with branching"),
        (["async_learners.mode=stream", "async_learners.max_staleness=1"], "need importance weights"),
    ):
        with pytest.raises(UsageError, match=message):
            load("pocket-returns", settings)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(TINY + STREAM)
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("in_flight", [1, 8])
def test_at_staleness_0_a_stream_is_the_run_that_takes_turns(tmp_path, in_flight):
    runs = {}
    for mode in ("turns", "stream"):
        path = tmp_path / f"{mode}.toml"
        path.write_text(TINY + f'in_flight = {in_flight}\nasync_learners.mode = "{mode}"\n')
        assert league_train(path, run_dir=tmp_path / mode).status == 0
        runs[mode] = contents(tmp_path / mode)
    ours = {"config.toml", f"state/{ARRIVALS_FILE}"}
    turns, stream = ({k: v for k, v in run.items() if k not in ours} for run in runs.values())
    assert {k for k in turns | stream if turns.get(k) != stream.get(k) and not k.startswith("state/it")} == set()


def replayed(run, target):
    """Return the contents of a finished run, and of the same from its beginning on, without a break."""
    shutil.copytree(run, target)
    ended = league_train("--resume", "--from", "0", run_dir=target)
    assert ended.status == 0, ended.output
    shutil.rmtree(target / "set_aside", ignore_errors=True)
    return (all_but_what_had_ended(contents(folder)) for folder in (run, target))


def all_but_what_had_ended(files):
    """Return a run's contents without what had ended of later batches at a checkpoint: that is a matter of time."""
    return {name: files[name] for name in files if "stream-" not in name and not name.endswith("manifest.json")}


def train_killed(config, run, times, seed, stop=False):
    """Train to the end, killed so often at random moments; return how often it was."""
    rng, killed = random.Random(seed), 0
    while True:
        arguments = ["--resume"] if folder_of(run, 0).exists() or (run / "config.toml").exists() else [config]
        process = TrainingProcess(*arguments, run_dir=run)
        ended = process.end(rng.uniform(0.5, 3.0) if killed < times else None)
        if ended.status == 0:
            return killed
        assert ended.status == -signal.SIGKILL, ended.output
        killed += 1


@pytest.mark.thorough
@pytest.mark.parametrize("learners", ["none", "each"])
@pytest.mark.parametrize("times", [4, pytest.param(30, marks=pytest.mark.slow)])
def test_a_stream_that_is_killed_goes_on_as_its_record_says(config, tmp_path, times, learners):
    run = tmp_path / "run"
    config.write_text(config.read_text().replace("{ mode", f'{{ processes = "{learners}", mode'))
    assert train_killed(config, run, times, seed=times) > 0
    first, again = replayed(run, tmp_path / "again")
    assert first.keys() == again.keys()
    assert [name for name in first if first[name] != again[name]] == []
    assert any(metrics.get("staleness", 0) > 0 for metrics in read_metrics(run))
