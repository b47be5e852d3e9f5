"""Learners in processes of their own: the same run to the last bit, whoever is killed and however often."""

import contextlib
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import time

import pytest
from run_processes import TINY, TrainingProcess, contents, league_train

from games.errors import UsageError
from league import decoupled
from league.learner_process import open_records
from league.match_store import STORE_FILE, MatchStore
from league.settings import load

TWO = TINY + 'roles.policy = { "kuhn_poker/first" = "opener", "kuhn_poker/second" = "caller" }\n'
EACH = ["--set", "decoupled.learners=each"]
AHEAD = [
    *("--set", "decoupled.max_staleness=2", "--set", "objective.truncate=2.0", "--set", "learner.max_gap=5.0"),
    *("--set", "matchmaking={self_play=1.0, fictitious=0.0}"),
]
VARIANTS = {
    "a process each": "",
    "own paces, groups, a critic": """
policies = { opener = { every = 3, inner_steps = 1 }, caller = { matches = 32, learning_rate = 1e-3 } }
credit = { rule = "gae_turn", rules = { "kuhn_poker/second" = "grpo" } }
matchmaking.group_size = 4
objective = { name = "gspo", normalisation = "role_mean", kl_reference = 0.1, epo = 0.1, magnet = 0.1 }
""",
    "a baseline over both policies, adapters on one base": """
policies = { opener = { kind = "lora", rank = 4 }, caller = { kind = "lora", rank = 2 } }
credit = { rule = "mars", baseline = "game" }
objective.normalisation = "rollout_mean"
""",
    "policies that take turns": "alternate = 2\n",
}


class Whole:
    """A configuration's file, and the run that was trained by it without a break, in learner processes."""

    def __init__(self, folder, *arguments):
        self.config, self.arguments, self.run = folder / "two.toml", [*EACH, *arguments], folder / "run"
        self.config.write_text(TWO)
        ended = league_train(self.config, *self.arguments, run_dir=self.run)
        assert ended.status == 0, ended.output
        self.seconds = ended.seconds

    def process(self, run_dir, die_at=None):
        begun = (run_dir / "config.toml").exists()
        arguments = ["--resume"] if begun else [self.config, *self.arguments]
        return TrainingProcess(*arguments, run_dir=run_dir, die_at=die_at)

    def finish(self, run_dir):
        ended = self.process(run_dir).end(within=600)
        assert ended.status == 0, ended.output


@pytest.fixture(scope="module")
def turns(tmp_path_factory):
    """Return a run whose processes take turns."""
    return Whole(tmp_path_factory.mktemp("turns"))


@pytest.fixture(scope="module")
def ahead(tmp_path_factory):
    """Return a run whose play is two updates ahead."""
    return Whole(tmp_path_factory.mktemp("ahead"), *AHEAD)


def consumed(run):
    """Return how far each learner came, how many records it learned from, and how many were too old."""
    with open_records(load(str(run / "config.toml")), run) as store:
        assert store.held() == (0, 0)
        return {name: tuple(store.progress(name)) for name in ("opener", "caller")}


def trained_here(run):
    """Return a run's contents without what only learner processes leave, and without the setting itself."""
    whole = contents(run)
    settings = load(str(run / "config.toml")).model_copy(update={"decoupled": None})
    return {name: each for name, each in whole.items() if not name.startswith(("learners/", "config."))} | {
        "settings": settings
    }


@pytest.mark.parametrize("variant", VARIANTS)
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
    settings = ["--set", 'decoupled.learners={both=["caller", "opener"]}']
    ended = league_train(turns.config, *settings, run_dir=tmp_path / "run")
    assert ended.status == 0, ended.output
    both, each = trained_here(tmp_path / "run"), trained_here(turns.run)
    assert [name for name in both | each if both.get(name) != each.get(name)] == []
    assert {path.name for path in (tmp_path / "run" / "learners").iterdir()} == {"both"}


def test_play_that_is_ahead_by_all_iterations_is_play_by_the_first_weights(turns, tmp_path):
    """Then no match may differ from one of a run that learns nothing."""
    played = {}
    for name, settings in (
        ("ahead", [*EACH, *AHEAD, "--set", "decoupled.max_staleness=5"]),
        ("still", [*AHEAD, "--set", "decoupled.max_staleness=0", "--set", "learner.learning_rate=0.0"]),
    ):
        once = ["--set", "snapshot_every=6"]  # or rating matches would take numbers, and so deals, in between
        ended = league_train(turns.config, *settings, *once, run_dir=tmp_path / name)
        assert ended.status == 0, ended.output
        with MatchStore(tmp_path / name / STORE_FILE) as store:
            live = [one for one in store.matches("kuhn_poker") if one.players == ("opener", "caller")]
        played[name] = sorted((one.deal_seed, one.returns) for one in live)
    assert len(played["ahead"]) == 6 * 64
    assert played["ahead"] == played["still"]
    gaps = [json.loads(line).get("gap") for line in (tmp_path / "ahead" / "metrics.jsonl").read_text().splitlines()]
    assert gaps[1] < 1e-4 < gaps[6]  # nats; the last update learns from what weights five updates older played


def wait_for_a_save(process, run):
    """Wait until a run has come further than it was, or has ended."""
    before = sorted(run.glob("state/iteration-*"))
    while process.alive() and sorted(run.glob("state/iteration-*")) == before:
        time.sleep(0.005)


def killed_at_random(number, whole, run, seed, within, saving=False):
    """Kill the process that plays, one that learns, or all, in so many seconds; at last let the run end.

    ``saving``: in so many seconds after it has saved something, so that many kills come far into a run.
    """
    rng = random.Random(seed)
    died = []
    for _ in range(number):
        victim = rng.choice(["play", "opener", "caller", "all"])
        by_clock = victim in ("play", "all") or rng.random() < 0.5
        process = whole.process(run, None if by_clock else (f"learners/{victim}/", rng.randrange(40)))
        if by_clock:
            if saving:
                wait_for_a_save(process, run)
            time.sleep(rng.uniform(0.0, within))
            for pid in pids(process, victim):
                with contextlib.suppress(ProcessLookupError):  # it was just done
                    os.kill(pid, signal.SIGKILL)
        ended = process.end(within=120)
        died.append((victim, ended.status))
        if ended.status == 0:  # the run was over before
            break
        assert ended.status in (1, -signal.SIGKILL), (victim, ended.output)
        if ended.status == 1:
            assert "was killed by SIGKILL. Everything up to iteration" in ended.output
    whole.finish(run)
    return died


def pids(process, victim):
    """Return the processes to kill; learners start in the order of the policies."""
    learners = process.children()
    chosen = {"play": [process.pid], "all": [process.pid, *learners], "opener": learners[:1], "caller": learners[1:]}
    return chosen[victim]


@pytest.mark.parametrize("kind", ["turns", "ahead"])
def test_killed_six_times_at_random(kind, request, tmp_path):
    whole = request.getfixturevalue(kind)
    killed_at_random(6, whole, tmp_path / "run", kind, whole.seconds)
    assert contents(tmp_path / "run") == contents(whole.run)
    assert consumed(tmp_path / "run") == consumed(whole.run)


@pytest.mark.parametrize(
    "window",
    [
        ("records.sqlite", 0),  # the learners' first folders are there, and no store is
        ("learners/opener/.000000", 1),
        ("learners/caller/.000003", 2),  # learned, and not whole on disk
        ("learners/caller/000002", 1),  # while the older one is removed
        ("state/.iteration-000003", 0),  # all have learned, and the state does not know it
    ],
)
def test_killed_where_it_would_tear(window, turns, tmp_path):
    ended = turns.process(tmp_path / "run", die_at=window).end(within=120)
    assert ended.status in (1, -signal.SIGKILL), ended.output
    turns.finish(tmp_path / "run")
    assert contents(tmp_path / "run") == contents(turns.run)
    assert consumed(tmp_path / "run") == consumed(turns.run)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [[], AHEAD], ids=["turns", "ahead"])
def test_killed_a_hundred_times(kind, tmp_path):
    long = Whole(tmp_path, *kind, "--set", "iterations=300")
    died = killed_at_random(100, long, tmp_path / "killed", 0, within=0.3, saving=True)
    assert len(died) == 100
    assert contents(tmp_path / "killed") == contents(long.run)
    assert consumed(tmp_path / "killed") == consumed(long.run)


def test_ctrl_c_ends_all_processes_and_says_how_to_go_on(turns, tmp_path):
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


def test_a_learner_that_fails_stops_the_run_in_its_own_words(turns, tmp_path):
    run = tmp_path / "run"
    settings = [*EACH, "--set", "policies.caller.learning_rate=1e20"]
    ended = TrainingProcess(turns.config, *settings, run_dir=run).end(within=60)
    assert ended.status == 1, ended.output
    assert "Policy 'caller', update 1, step 2: the loss is" in ended.output
    assert f"The batch is in {run / 'failed-batch.json'}." in ended.output
    assert json.loads((run / "failed-batch.json").read_text())["policy"] == "caller"
    assert "Traceback" not in ended.output


def test_a_mistake_that_a_learner_meets_is_told_as_one(turns, tmp_path):
    run = tmp_path / "run"
    assert turns.process(run, die_at=("state/.iteration-000003", 0)).end(within=60).status == -signal.SIGKILL
    with sqlite3.connect(run / "records.sqlite") as database:
        database.execute("UPDATE learners SET name = 'pioneer' WHERE name = 'opener'")
    database.close()
    ended = turns.process(run).end(within=60)
    assert ended.status == 2, ended.output
    assert "records.sqlite knows no learner 'opener'. Its run was begun with other learners." in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["decoupled.max_staleness=1"], "there are none"),
        (["decoupled.learners=each", "decoupled.max_staleness=1"], "set objective.truncate"),
        (['decoupled.learners={a=["opener"]}'], "names caller 0 times"),
        (['decoupled.learners={a=["opener","caller"],b=["caller"]}'], "names caller 2 times"),
        (['decoupled.learners={a=["opener","caler"]}'], "no trained policy named 'caler'. Did you mean caller?"),
        (['decoupled.learners={a=["opener","caller"],b=[]}'], "decoupled.learners.b has no policy"),
        (['decoupled.learners={"a/b"=["opener","caller"]}'], "cannot be named 'a/b'"),
        (["decoupled.learners=each", 'policies.probe={learner="main_exploiter"}'], "Exploiters (probe) begin anew"),
        (["decoupled.learners=each", "matchmaking.response_from=first"], "takes policies back to older weights"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_way_out(settings, message, tmp_path):
    (tmp_path / "two.toml").write_text(TWO)
    with pytest.raises(UsageError) as refused:
        load(str(tmp_path / "two.toml"), settings)
    assert message in str(refused.value)


def test_a_learner_that_died_before_it_read_anything_left_no_word():
    ours, theirs = multiprocessing.Pipe()
    ours.send_bytes(b"begin")
    theirs.close()
    assert decoupled._last_words(ours) is None
