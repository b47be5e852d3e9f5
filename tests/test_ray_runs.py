"""Runs on Ray clusters: the run of one machine, whoever dies, and wherever it is gone on with.

Weights, matches, payoffs, ratings and all that is saved are equal to the last bit. What rounding may change, because an
engine computes prompts in other batches, are the recorded log-probs, and so the gap, tables of exact values, and
weights that were trained with the importance weights of play that was ahead.
"""

import json
import os
import re
import signal
import time
from contextlib import closing

import psutil
import pytest
from ray_nodes import nodes
from run_processes import TINY, TrainingProcess, contents, league_train
from safetensors.torch import load as load_weights
from small_server import MODELS, Server, completion

from league.cluster import OnCluster
from league.match_store import STORE_FILE, MatchStore
from league.players import Engines
from league.run_state import begin_state, new_state
from league.settings import load, run_roles
from league.start import start_policies
from league.train import League

SPLIT = 'roles.policy = { "kuhn_poker/first" = "opener", "kuhn_poker/second" = "caller" }\n'
TWO = TINY + SPLIT + "cluster = { matches = 8, engine_cpus = 0.5, worker_cpus = 0.5, learner_cpus = 0.5 }\n"
EACH = ["--set", "decoupled.learners=each"]
AHEAD = ["--set", "decoupled.max_staleness=2", "--set", "objective.truncate=2.0", "--set", "learner.max_gap=5.0"]
ADAPTERS = ["--set", 'policies={opener={kind="lora", rank=4}, caller={kind="lora", rank=2}}']
ROUNDED = 1e-6  # nats, units of the game, and weights


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("configs") / "two.toml"
    path.write_text(TWO)
    return path


@pytest.fixture(scope="module")
def here(config):
    """Return what a run without a cluster leaves."""
    return finished(config, run_dir=config.parent / "here")


def finished(*arguments, run_dir):
    ended = league_train(*arguments, run_dir=run_dir)
    assert ended.status == 0, ended.output
    return run_dir


def exact(run):
    """Return all that must be equal to the last bit."""
    files = contents(run)
    names = [
        name for name in files if not name.startswith(("episodes/", "state/tables/", "learners/", "config", "metrics"))
    ]
    return {name: files[name] for name in names}


def measured(run):
    """Return the metrics that do not tell how fast it was and on whom."""
    return [
        {name: value for name, value in line.items() if not name.startswith("cluster/")}
        for line in contents(run)["metrics.jsonl"]
    ]


def same(one, other, weights=0.0):
    """Assert that two runs are one, their weights within so much."""
    first, second = exact(one), exact(other)
    if weights:
        first, second = without_weights(first, second, weights), without_weights(second, first, weights)
    assert [name for name in first | second if first.get(name) != second.get(name)] == []
    for before, after in zip(measured(one), measured(other), strict=True):
        assert after == pytest.approx(before, abs=ROUNDED)
    with MatchStore(other / STORE_FILE) as store:
        indices = [match.index for match in store.matches("kuhn_poker")]
    assert len(set(indices)) == len(indices)


def without_weights(files, others, within):
    """Return the files but weights, and what hashes them or is computed from them; weights must agree."""
    for name in [name for name in files if name.endswith(".safetensors")]:
        mine, theirs = load_weights(files[name]), load_weights(others[name])
        assert mine.keys() == theirs.keys()
        assert all(float(abs(mine[key] - theirs[key]).max()) <= within for key in mine)
    return {
        name: each for name, each in files.items() if not name.endswith((".safetensors", "snapshot.json", "state.json"))
    }


def test_learners_and_workers_on_a_cluster_are_the_run_of_this_machine(config, here, tmp_path):
    there = finished(config, *EACH, "--cluster", "local", run_dir=tmp_path / "there")
    same(here, there)
    shares = [
        {name: value for name, value in json.loads(line).items() if name.startswith("cluster/share/")}
        for line in (there / "metrics.jsonl").read_text().splitlines()
    ]
    assert all(sum(one.values()) == pytest.approx(1.0) for one in shares[1:])


@pytest.mark.slow
@pytest.mark.parametrize("variant", [[], ADAPTERS], ids=["whole models", "adapters"])
def test_so_are_engines_apart(variant, config, tmp_path):
    engines = ["--set", "cluster.engines=2", "--cluster", "local"]
    one = finished(config, *variant, run_dir=tmp_path / "here")
    same(one, finished(config, *variant, *engines, run_dir=tmp_path / "there"))


@pytest.mark.slow
def test_a_run_moves_to_a_cluster_and_back(config, tmp_path):
    """With learners of its own, and play that is ahead: what either leaves, the other goes on with."""
    whole = finished(config, *EACH, *AHEAD, run_dir=tmp_path / "whole")
    moved = tmp_path / "moved"
    for number, where in enumerate([["--cluster", "local"], [], ["--cluster", "local"]]):
        arguments = ["--resume", *where] if number else [config, *EACH, *AHEAD, *where]
        process = TrainingProcess(*arguments, run_dir=moved)
        if number < 2:
            wait(moved, 2 * number + 1, process)
        else:
            assert process.end().status == 0
        process.end(within=0.0)
    same(whole, moved, weights=ROUNDED)


@pytest.mark.slow
def test_whoever_dies_the_run_is_the_same(config, here, tmp_path):
    """Three nodes that work. A worker, an engine, a learner and a node are killed in the middle of it."""
    longer = ["--set", "iterations=12"]
    undisturbed = finished(config, *longer, run_dir=tmp_path / "undisturbed")
    for cluster in nodes(3, cpus=2):
        arguments = [config, *longer, *EACH, "--set", "cluster.engines=2", "--cluster", cluster.address]
        process = TrainingProcess(*arguments, run_dir=tmp_path / "run")
        for iteration, kind in ((1, "Worker"), (3, "Engine"), (5, "Learner")):
            wait(tmp_path / "run", iteration, process)
            cluster.kill(kind)
        wait(tmp_path / "run", 7, process)
        cluster.remove(0)
        ended = process.end(within=400)
        assert ended.status == 0, ended.output
        assert "raylet" not in ended.output
    same(undisturbed, tmp_path / "run")


@pytest.mark.slow
def test_play_is_ahead_of_learners_as_far_as_it_may_be_and_no_further(config, tmp_path):
    """And what is played then has the weights that the staleness says, whoever stands still for how long."""
    undisturbed = finished(config, *EACH, *AHEAD, run_dir=tmp_path / "undisturbed")
    for cluster in nodes(2, cpus=2):
        run = tmp_path / "run"
        process = TrainingProcess(config, *EACH, *AHEAD, "--cluster", cluster.address, run_dir=run)
        wait(run, 1, process)
        stopped = cluster.members("Learner")[0]
        stopped.suspend()
        time.sleep(5.0)  # what had been learned is taken
        reached = saved(run)
        time.sleep(5.0)
        assert saved(run) == reached < 6
        stopped.resume()
        ended = process.end(within=400)
        assert ended.status == 0, ended.output
    same(undisturbed, run, weights=ROUNDED)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line.get("staleness", 0.0) for line in lines[1:]] == [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    assert lines[1]["gap"] < 1e-4 < lines[6]["gap"]


@pytest.mark.slow
def test_matches_are_played_while_learners_learn(config, tmp_path):
    """Those of three iterations come back while all learners stand still; then these learn from each."""
    settings = load(str(config), [word for word in EACH + AHEAD if word != "--set"])
    roles = run_roles(settings)
    for nodes_ in nodes(1, cpus=4):
        with OnCluster(settings, tmp_path, nodes_.address) as site, Engines() as engines:
            begin_state(tmp_path)
            state = new_state(settings, tmp_path, start_policies(settings, roles, tmp_path))
            venue = site.venue(settings, tmp_path, roles, state, engines)
            with closing(League(settings, tmp_path, roles, state, site.learner(state), venue)) as league:
                league.begin_learning()
                league.hand_over(1, league.play(league.draw_matches(1)))
                first = league.learner.take(1)
                for learner in nodes_.members("Learner"):
                    learner.suspend()
                for iteration in (2, 3, 4):
                    league.hand_over(iteration, league.play(league.draw_matches(iteration)))
                assert league.played() == 4
                for learner in nodes_.members("Learner"):
                    learner.resume()
                assert [len(league.learner.take(iteration).trajectories) for iteration in (2, 3, 4)] == [
                    len(first.trajectories)
                ] * 3
            state.store.close()


@pytest.mark.slow
def test_a_player_behind_a_server_is_asked_by_one_process_within_its_limits(config, tmp_path):
    """By both workers together it may be asked three things at a time; what it was asked is in the account."""
    with Server(slowly) as server:
        model = tmp_path / "model.toml"
        model.write_text(f'model = "{MODELS[0]}"\nurl = "{server.url}"\nconcurrency = 3\n')
        guest = f'["openai:{model}"]'
        asked = [config, "--set", "iterations=2", "--set", "roles.on_illegal=retry"]
        asked += ["--set", f"matchmaking.guests={guest}", "--set", f"evaluation.anchors={guest}"]
        one = finished(*asked, run_dir=tmp_path / "here")
        before, server.most_at_once = len(server.seen), 0
        ended = league_train(*asked, "--cluster", "local", run_dir=tmp_path / "there")
        assert ended.status == 0, ended.output
        assert 1 < server.most_at_once <= 3
        counted = int(
            re.search(r"model\.toml: ([\d,]+) requests, 0 of them repeated", ended.output)[1].replace(",", "")
        )
        assert counted > 30
        assert 0 <= len(server.seen) - before - counted <= 8  # what tries it out is in no account
    same(one, tmp_path / "there")


@pytest.mark.slow
def test_ctrl_c_lets_the_iteration_end_and_nothing_lives_on(config, here, tmp_path):
    """As without a cluster; then the run is gone on with."""
    process = TrainingProcess(config, "--cluster", "local", run_dir=tmp_path / "run")
    wait(tmp_path / "run", 1, process)
    below = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGINT)
    ended = process.end(within=120)
    assert ended.status == 130
    assert "everything is saved. To go on:" in ended.output
    assert psutil.wait_procs(below, timeout=20)[1] == []
    finished("--resume", run_dir=tmp_path / "run")
    same(here, tmp_path / "run")


def slowly(number, body):
    """Answer so that others ask meanwhile."""
    time.sleep(0.05)
    return completion("bet")


def saved(run):
    """Return the iteration after which a run was last saved; −1: never."""
    return max((int(path.name[-6:]) for path in run.glob("state/iteration-*")), default=-1)


def wait(run, iteration, process):
    """Wait until an iteration of a run has been saved."""
    while saved(run) < iteration:
        assert process.alive(), process.end().output
        time.sleep(0.02)
