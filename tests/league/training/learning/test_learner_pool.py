"""Learner processes: the same run to the last bit, whichever process is killed and however often."""

import contextlib
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import time

import pytest
from support.processes.learners import AHEAD, EACH, trained_here
from support.processes.runs import TINY, TrainingProcess, contents, league_train

from games.common.errors import UsageError
from league.config.load import load
from league.population.results.match_store import STORE_FILE, MatchStore
from league.training.learning import learner_pool
from league.training.learning.learner_process import open_records

pytestmark = pytest.mark.thorough

TWO = TINY + 'roles.policy = { "kuhn_poker/first" = "opener", "kuhn_poker/second" = "caller" }\n'
VARIANTS = {
    "a process each": "",
    "own paces, groups, a critic": """
policies = { opener = { every = 3, inner_steps = 1 }, caller = { matches = 32, learning_rate = 1e-3 } }
credit = { rule = "gae_turn", rules = { "kuhn_poker/second" = "grpo" } }
matchmaking.group_size = 4
objective = { name = "gspo", normalisation = "role_mean", kl_reference = 0.1, epo = 0.1, magnet = 0.1 }
""",
    "a baseline over both policies, adapters on one base": """
policies = { opener = { weights = "lora", rank = 4 }, caller = { weights = "lora", rank = 2 } }
credit = { rule = "mars", mars = { baseline = "game" } }
objective.normalisation = "rollout_mean"
""",
    "policies that take turns": "alternate = 2\n",
    "a role that is given away": """
games."judged_arithmetic(judge=1)".matches = 16
[roles.player]
"judged_arithmetic(judge=1)/judge" = "scripted:optimal"
""",
}


class UnbrokenRun:
    """A configuration's file, and the run that was trained by it without a break, in learner processes."""

    def __init__(self, folder, *arguments):
        self.config, self.arguments, self.run = folder / "two.toml", [*EACH, *arguments], folder / "run"
        self.config.write_text(TWO)
        ended = league_train(self.config, *self.arguments, run_dir=self.run)
        assert ended.status == 0, ended.output
        self.seconds = ended.seconds

    def process(self, run_dir, die_at=None):
        started = (run_dir / "config.toml").exists()
        arguments = ["--resume"] if started else [self.config, *self.arguments]
        return TrainingProcess(*arguments, run_dir=run_dir, die_at=die_at)

    def finish(self, run_dir):
        ended = self.process(run_dir).end(within=600)
        assert ended.status == 0, ended.output


@pytest.fixture(scope="module")
def turns(tmp_path_factory):
    """Return a run whose processes take turns."""
    return UnbrokenRun(tmp_path_factory.mktemp("turns"))


@pytest.fixture(scope="module")
def ahead(tmp_path_factory):
    """Return a run whose play is two updates ahead."""
    return UnbrokenRun(tmp_path_factory.mktemp("ahead"), *AHEAD)


def consumed(run):
    """Return each learner's last batch, the records it learned from, and those that were too old."""
    with open_records(load(str(run / "config.toml")), run) as store:
        assert store.stored() == (0, 0)
        return {name: tuple(store.progress(name)) for name in ("opener", "caller")}


LONG = ("own paces, groups, a critic", "a baseline over both policies, adapters on one base")
MARKED = [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in VARIANTS]


@pytest.mark.parametrize("variant", MARKED)
def test_taking_turns_it_is_the_run_of_one_process(variant, tmp_path):
    config = tmp_path / "two.toml"
    config.write_text(TWO + VARIANTS[variant])
    for name, arguments in (("here", []), ("apart", EACH)):
        ended = league_train(config, *arguments, run_dir=tmp_path / name)
        assert ended.status == 0, ended.output
    here, apart = trained_here(tmp_path / "here"), trained_here(tmp_path / "apart")
    assert [name for name in here | apart if here.get(name) != apart.get(name)] == []


def test_every_record_is_read_once_by_every_learner(turns, ahead):
    """64 matches of two trained seats in each of 6 iterations; the past opponents' seats give no trajectory."""
    assert consumed(ahead.run) == {"opener": (6, 6 * 128, 0), "caller": (6, 6 * 128, 0)}
    opener, caller = consumed(turns.run).values()
    assert opener == caller
    assert opener[1] < 6 * 128


def test_one_process_may_learn_for_two_policies(turns, tmp_path):
    settings = ["--set", 'async_learners.processes={both=["caller", "opener"]}']
    ended = league_train(turns.config, *settings, run_dir=tmp_path / "run")
    assert ended.status == 0, ended.output
    shared, separate = trained_here(tmp_path / "run"), trained_here(turns.run)
    assert [name for name in shared | separate if shared.get(name) != separate.get(name)] == []
    assert {path.name for path in (tmp_path / "run" / "learners").iterdir()} == {"both"}


def test_play_that_is_ahead_by_all_iterations_is_play_by_the_first_weights(turns, tmp_path):
    """Every match is equal to one of a run that learns nothing."""
    played = {}
    for name, settings in (
        ("ahead", [*EACH, *AHEAD, "--set", "async_learners.max_staleness=5"]),
        ("still", [*AHEAD, "--set", "async_learners.max_staleness=0", "--set", "optimizer.learning_rate=0.0"]),
    ):
        once = ["--set", "snapshot_every=6"]  # rating matches would take match indices, and so deals, in between
        ended = league_train(turns.config, *settings, *once, run_dir=tmp_path / name)
        assert ended.status == 0, ended.output
        with MatchStore(tmp_path / name / STORE_FILE) as store:
            live = [match for match in store.matches("kuhn_poker") if match.players == ("opener", "caller")]
        played[name] = sorted((match.deal_seed, match.returns) for match in live)
    assert len(played["ahead"]) == 6 * 64
    assert played["ahead"] == played["still"]
    gaps = [json.loads(line).get("gap") for line in (tmp_path / "ahead" / "metrics.jsonl").read_text().splitlines()]
    assert gaps[1] < 1e-4 < gaps[6]  # nats; the last update learns from matches of weights five updates older


def wait_for_a_save(process, run):
    """Wait until a run has saved another checkpoint, or has ended."""
    before = sorted(run.glob("state/iteration-*"))
    while process.alive() and sorted(run.glob("state/iteration-*")) == before:
        time.sleep(0.005)


def killed_at_random(number, unbroken, run, seed, within, saving=False):
    """Kill the process that plays, one that learns, or all, each within this many seconds, and let the run end.

    A learner is replaced, and the run continues. ``saving``: within this many seconds after a checkpoint, so that a run
    with many kills makes progress.
    """
    rng, victims, process = random.Random(seed), [], None
    for _ in range(number):
        victim = rng.choice(["play", "opener", "caller", "all"])
        writing = process is None and victim in ("opener", "caller") and rng.random() < 0.5
        if process is None:
            process = unbroken.process(run, (f"learners/{victim}/", rng.randrange(40)) if writing else None)
        if saving:
            wait_for_a_save(process, run)
        time.sleep(rng.uniform(0.0, within))
        for pid in () if writing else pids(process, victim):
            with contextlib.suppress(ProcessLookupError):  # it had just ended
                os.kill(pid, signal.SIGKILL)
        victims.append(victim)
        if victim in ("play", "all") or not process.alive():
            ended, process = process.end(within=120), None
            if ended.status == 0:  # the run ended before the kill
                return victims
            assert ended.status in (1, -signal.SIGKILL), (victim, ended.output)
            if ended.status == 1:  # one that was killed again and again while it started
                assert "was killed by SIGKILL. That happened 3 times in one iteration." in ended.output
    if process is not None:
        ended = process.end(within=600)
        assert ended.status == 0, ended.output
    else:
        unbroken.finish(run)
    return victims


def pids(process, victim):
    """Return the processes to kill; learners start in the order of the policies."""
    learners = process.children()
    chosen = {"play": [process.pid], "all": [process.pid, *learners], "opener": learners[:1], "caller": learners[1:]}
    return chosen[victim]


@pytest.mark.parametrize("kind", ["turns", "ahead"])
def test_killed_six_times_at_random(kind, request, tmp_path):
    unbroken = request.getfixturevalue(kind)
    killed_at_random(6, unbroken, tmp_path / "run", kind, unbroken.seconds)
    assert contents(tmp_path / "run") == contents(unbroken.run)
    assert consumed(tmp_path / "run") == consumed(unbroken.run)


@pytest.mark.parametrize(
    ("window", "status"),
    [
        (("records.sqlite", 0), -signal.SIGKILL),  # the learners' first checkpoints exist, the store does not
        (("learners/opener/.000000", 1), -signal.SIGKILL),  # which the run itself writes
        (("learners/caller/.000003", 2), 0),  # learned, and not saved completely: another learner takes its place
        (("learners/caller/000002", 1), -signal.SIGKILL),  # while the run removes the older checkpoint
        (("state/.iteration-000003", 0), -signal.SIGKILL),  # all have learned, and the state is not saved
    ],
)
def test_killed_between_two_writes(window, status, turns, tmp_path):
    ended = turns.process(tmp_path / "run", die_at=window).end(within=120)
    assert ended.status == status, ended.output
    turns.finish(tmp_path / "run")
    assert contents(tmp_path / "run") == contents(turns.run)
    assert consumed(tmp_path / "run") == consumed(turns.run)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [[], AHEAD], ids=["turns", "ahead"])
def test_killed_a_hundred_times(kind, tmp_path):
    long_run = UnbrokenRun(tmp_path, *kind, "--set", "iterations=300")
    victims = killed_at_random(100, long_run, tmp_path / "killed", 0, within=0.3, saving=True)
    assert len(victims) == 100
    assert contents(tmp_path / "killed") == contents(long_run.run)
    assert consumed(tmp_path / "killed") == consumed(long_run.run)


def test_ctrl_c_ends_all_processes_and_prints_how_to_resume(turns, tmp_path):
    run = tmp_path / "run"
    process = turns.process(run)
    while not (run / "learners" / "caller" / "000001").exists():
        time.sleep(0.005)
    learners = process.children()
    assert len(learners) == 2
    for pid in (process.pid, *learners):  # as a terminal does
        os.kill(pid, signal.SIGINT)
    ended = process.end(within=60)
    assert ended.status == 130, ended.output
    assert "everything is saved. To go on:" in ended.output
    assert f"league train --resume --run-dir {run}" in ended.output
    for pid in learners:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    turns.finish(run)
    assert contents(run) == contents(turns.run)


def test_a_learner_that_fails_stops_the_run_with_its_error(turns, tmp_path):
    run = tmp_path / "run"
    settings = [*EACH, "--set", "policies.caller.learning_rate=1e20"]
    ended = TrainingProcess(turns.config, *settings, run_dir=run).end(within=60)
    assert ended.status == 1, ended.output
    assert "Policy 'caller', update 1, step 2: the loss is" in ended.output
    assert f"The batch is in {run / 'failed-batch.json'}." in ended.output
    assert json.loads((run / "failed-batch.json").read_text())["policy"] == "caller"
    assert "Traceback" not in ended.output


def test_a_usage_error_of_a_learner_is_shown_as_one(turns, tmp_path):
    run = tmp_path / "run"
    assert turns.process(run, die_at=("state/.iteration-000003", 0)).end(within=60).status == -signal.SIGKILL
    with sqlite3.connect(run / "records.sqlite") as database:
        database.execute("UPDATE learners SET name = 'pioneer' WHERE name = 'opener'")
    database.close()
    ended = turns.process(run).end(within=60)
    assert ended.status == 2, ended.output
    assert "records.sqlite has no learner 'opener'. Its run was started with other learners." in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["async_learners.max_staleness=1"], "there are no learner processes"),
        (["async_learners.processes=each", "async_learners.max_staleness=1"], "set objective.truncate"),
        (['async_learners.processes={a=["opener"]}'], "names caller 0 times"),
        (['async_learners.processes={a=["opener","caller"],b=["caller"]}'], "names caller 2 times"),
        (['async_learners.processes={a=["opener","caler"]}'], "no trained policy named 'caler'. Did you mean caller?"),
        (['async_learners.processes={a=["opener","caller"],b=[]}'], "async_learners.processes.b has no policy"),
        (['async_learners.processes={"a/b"=["opener","caller"]}'], "cannot be named 'a/b'"),
        (
            ["async_learners.processes=each", 'policies.probe={league_role="main_exploiter"}'],
            "Exploiters and partners (probe) learn in the process that plays",
        ),
        (["async_learners.processes=each", "matchmaking.response_from=first"], "returns policies to older weights"),
    ],
)
def test_bad_combinations_are_refused_with_what_to_set(settings, message, tmp_path):
    (tmp_path / "two.toml").write_text(TWO)
    with pytest.raises(UsageError) as refused:
        load(str(tmp_path / "two.toml"), settings)
    assert message in str(refused.value)


def test_a_learner_that_died_before_it_read_anything_sent_no_error():
    connection, child_connection = multiprocessing.Pipe()
    connection.send_bytes(b"begin")
    child_connection.close()
    assert learner_pool._receive_error(connection) is None
