"""Runs on Ray clusters equal the run of one machine, whichever process dies, and wherever they are resumed.

Weights, matches, payoffs, ratings and all that is saved are equal to the last bit. Recorded log-probs may differ by
rounding, because an engine computes prompts in other batches, and with them the gap, tables of exact values, and
weights that were trained with importance weights on matches played ahead.

They do differ, and not by chance: a prompt's log-probs alone and among seven others differ by up to 3e-6 nats, because
products of other shapes add in another order, while the same batch gives the same bits again. Which prompts share a
batch depends on how many workers ask one engine, and that is what a cluster changes.
"""

import json
import os
import re
import signal
import time
from contextlib import closing

import psutil
import pytest
from safetensors.torch import load as load_weights
from support.processes.ray_nodes import nodes
from support.processes.runs import TINY, TrainingProcess, contents, league_train
from support.processes.server import MODELS, Server, completion

from league.config.context import run_context
from league.config.load import load
from league.population.players.player import Engines
from league.population.results.match_store import STORE_FILE, MatchStore
from league.training.backends.cluster import ClusterDeployment
from league.training.checkpoints.checkpoint import clear_state
from league.training.checkpoints.run_state import new_state
from league.training.learning.policies import start_policies
from league.training.loop.loop import League, Services

SPLIT = 'roles.policy = { "kuhn_poker/first" = "opener", "kuhn_poker/second" = "caller" }\n'
TWO = TINY + SPLIT + "cluster = { matches = 8, engine_cpus = 0.5, worker_cpus = 0.5, learner_cpus = 0.5 }\n"
EACH = ["--set", "async_learners.processes=each"]
AHEAD = ["--set", "async_learners.max_staleness=2", "--set", "objective.truncate=2.0", "--set", "optimizer.max_gap=5.0"]
ADAPTERS = ["--set", 'policies={opener={weights="lora", rank=4}, caller={weights="lora", rank=2}}']
OWN = ["--set", "policies.caller.model={hidden_size=48, vocabulary=300}"]
OWN_ADAPTERS = [
    "--set",
    'policies={opener={weights="lora", rank=4}, caller={weights="lora", rank=2, model={hidden_size=48}}}',
]
ROUNDED = 1e-6  # nats, units of the game, and weights


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("configs") / "two.toml"
    path.write_text(TWO)
    return path


@pytest.fixture(scope="module")
def local_run(config):
    """Return a run without a cluster."""
    return train(config, run_dir=config.parent / "here")


def train(*arguments, run_dir):
    ended = league_train(*arguments, run_dir=run_dir)
    assert ended.status == 0, ended.output
    return run_dir


def exact_files(run):
    """Return the files that must be equal to the last bit."""
    files = contents(run)
    names = [
        name for name in files if not name.startswith(("episodes/", "state/tables/", "learners/", "config", "metrics"))
    ]
    return {name: files[name] for name in names}


def metrics(run):
    """Return the metrics without those of the cluster."""
    return [
        {name: value for name, value in line.items() if not name.startswith("cluster/")}
        for line in contents(run)["metrics.jsonl"]
    ]


def assert_same(expected, run, weights=0.0):
    """Assert that two runs are equal, their weights within ``weights``."""
    first, second = exact_files(expected), exact_files(run)
    if weights:
        first, second = without_weights(first, second, weights), without_weights(second, first, weights)
    assert [name for name in first | second if first.get(name) != second.get(name)] == []
    for before, after in zip(metrics(expected), metrics(run), strict=True):
        assert after == pytest.approx(before, abs=ROUNDED)
    with MatchStore(run / STORE_FILE) as store:
        indices = [match.index for match in store.matches("kuhn_poker")]
    assert len(set(indices)) == len(indices)


def without_weights(files, expected, within):
    """Return the files without weights, what is computed from them, and hashes; assert that the first two are close."""
    for name in [name for name in files if name.endswith(".safetensors")]:
        weights, expected_weights = load_weights(files[name]), load_weights(expected[name])
        assert weights.keys() == expected_weights.keys()
        assert all(float(abs(weights[key] - expected_weights[key]).max()) <= within for key in weights)
    ahead = [name for name in files if name.rpartition("/")[2].startswith("ahead-")]  # matches, with log-probs
    for name in ahead:
        assert close(json_lines(files[name]), json_lines(expected[name]), within), name
    return {
        name: content
        for name, content in files.items()
        if not name.endswith((".safetensors", "snapshot.json", "state.json", "manifest.json")) and name not in ahead
    }


def json_lines(content):
    return [json.loads(line) for line in content.decode().splitlines()]


def close(one, other, within):
    """Return whether two values of JSON are equal, their numbers within some distance, hashes left aside."""
    if isinstance(one, float) and isinstance(other, int | float):
        return abs(one - other) <= within
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(close(a, b, within) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        keys = one.keys() - {"sha256"}
        return one.keys() == other.keys() and all(close(one[key], other[key], within) for key in keys)
    return bool(one == other)


@pytest.mark.thorough
def test_learners_and_workers_on_a_cluster_are_the_run_of_this_machine(config, local_run, tmp_path):
    there = train(config, *EACH, "--cluster", "local", run_dir=tmp_path / "there")
    assert_same(local_run, there)
    shares = [
        {name: value for name, value in json.loads(line).items() if name.startswith("cluster/share/")}
        for line in (there / "metrics.jsonl").read_text().splitlines()
    ]
    assert all(sum(share.values()) == pytest.approx(1.0) for share in shares[1:])


@pytest.mark.thorough
@pytest.mark.parametrize("where", [[], EACH], ids=["learning here", "learners there"])
def test_two_base_models_on_a_cluster_are_the_run_of_this_machine(where, config, tmp_path):
    here = train(config, *OWN, run_dir=tmp_path / "here")
    assert_same(here, train(config, *OWN, *where, "--cluster", "local", run_dir=tmp_path / "there"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant", [[], ADAPTERS, OWN, OWN_ADAPTERS], ids=["full models", "adapters", "two bases", "adapters on two bases"]
)
def test_so_are_engines_of_their_own(variant, config, tmp_path):
    engines = ["--set", "cluster.engines=2", "--cluster", "local"]
    expected = train(config, *variant, run_dir=tmp_path / "here")
    assert_same(expected, train(config, *variant, *engines, run_dir=tmp_path / "there"))


@pytest.mark.slow
def test_a_run_moves_to_a_cluster_and_back(config, tmp_path):
    """With learner processes and play ahead: either resumes from the other's checkpoint."""
    unbroken = train(config, *EACH, *AHEAD, run_dir=tmp_path / "whole")
    moved = tmp_path / "moved"
    for number, cluster in enumerate([["--cluster", "local"], [], ["--cluster", "local"]]):
        arguments = ["--resume", *cluster] if number else [config, *EACH, *AHEAD, *cluster]
        process = TrainingProcess(*arguments, run_dir=moved)
        if number < 2:
            wait(moved, 2 * number + 1, process)
        else:
            assert process.end().status == 0
        process.end(within=0.0)
    assert_same(unbroken, moved, weights=ROUNDED)


@pytest.mark.slow
def test_whichever_process_dies_the_run_is_the_same(config, local_run, tmp_path):
    """On three nodes a worker, an engine, a learner and a node are killed during the run."""
    longer = ["--set", "iterations=12"]
    undisturbed = train(config, *longer, run_dir=tmp_path / "undisturbed")
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
    assert_same(undisturbed, tmp_path / "run")


@pytest.mark.slow
def test_play_is_ahead_of_learners_as_far_as_it_may_be_and_no_further(config, tmp_path):
    """The matches have the weights that the staleness says, however long a learner is suspended."""
    undisturbed = train(config, *EACH, *AHEAD, run_dir=tmp_path / "undisturbed")
    for cluster in nodes(2, cpus=2):
        run = tmp_path / "run"
        process = TrainingProcess(config, *EACH, *AHEAD, "--cluster", cluster.address, run_dir=run)
        wait(run, 1, process)
        learner = cluster.processes("Learner")[0]
        learner.suspend()
        time.sleep(5.0)  # what had been learned before is collected
        reached = saved_iteration(run)
        time.sleep(5.0)
        assert saved_iteration(run) == reached < 6
        learner.resume()
        ended = process.end(within=400)
        assert ended.status == 0, ended.output
    assert_same(undisturbed, run, weights=ROUNDED)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line.get("staleness", 0.0) for line in lines[1:]] == [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    assert lines[1]["gap"] < 1e-4 < lines[6]["gap"]


@pytest.mark.slow
def test_matches_are_played_while_learners_learn(config, tmp_path):
    """Three iterations are played while all learners are suspended; then these learn from each."""
    run_config = load(str(config), [word for word in EACH + AHEAD if word != "--set"])
    context = run_context(run_config, tmp_path)
    for cluster in nodes(1, cpus=4):
        with ClusterDeployment(context, cluster.address) as deployment, Engines() as engines:
            clear_state(tmp_path)
            state = new_state(run_config, tmp_path, start_policies(context))
            rollouts = deployment.rollouts(context, state, engines)
            with closing(League(context, state, Services(deployment.learner(state), rollouts))) as league:
                league.start_learning()
                league.submit(1, league.play(league.draw_matches(1)))
                first = league.learner.collect(1)
                for learner in cluster.processes("Learner"):
                    learner.suspend()
                for iteration in (2, 3, 4):
                    league.submit(iteration, league.play(league.draw_matches(iteration)))
                assert max(state.played_ahead) == 4
                for learner in cluster.processes("Learner"):
                    learner.resume()
                assert [len(league.learner.collect(iteration).trajectories) for iteration in (2, 3, 4)] == [
                    len(first.trajectories)
                ] * 3
            state.store.close()


@pytest.mark.slow
def test_one_process_sends_the_requests_to_a_server_within_its_limits(config, tmp_path):
    """Both workers together may have three requests under way; all requests are counted in the usage."""
    with Server(slowly) as server:
        model = tmp_path / "model.toml"
        model.write_text(f'model = "{MODELS[0]}"\nurl = "{server.url}"\nconcurrency = 3\n')
        guest = f'["openai:{model}"]'
        arguments = [config, "--set", "iterations=2", "--set", "roles.on_illegal=retry"]
        arguments += ["--set", f"matchmaking.guests={guest}", "--set", f"evaluation.anchors={guest}"]
        expected = train(*arguments, run_dir=tmp_path / "here")
        before, server.most_at_once = len(server.seen), 0
        ended = league_train(*arguments, "--cluster", "local", run_dir=tmp_path / "there")
        assert ended.status == 0, ended.output
        assert 1 < server.most_at_once <= 3
        counted = int(
            re.search(r"model\.toml: ([\d,]+) requests, 0 of them repeated", ended.output)[1].replace(",", "")
        )
        assert counted > 30
        assert 0 <= len(server.seen) - before - counted <= 8  # the requests of ``check_players`` are not counted
    assert_same(expected, tmp_path / "there")


@pytest.mark.slow
def test_ctrl_c_lets_the_iteration_end_and_leaves_no_process(config, local_run, tmp_path):
    """As without a cluster; then the run is resumed."""
    process = TrainingProcess(config, "--cluster", "local", run_dir=tmp_path / "run")
    wait(tmp_path / "run", 1, process)
    children = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGINT)
    ended = process.end(within=120)
    assert ended.status == 130
    assert "everything is saved. To go on:" in ended.output
    assert psutil.wait_procs(children, timeout=20)[1] == []
    train("--resume", run_dir=tmp_path / "run")
    assert_same(local_run, tmp_path / "run")


def slowly(number, body):
    """Answer so slowly that requests overlap."""
    time.sleep(0.05)
    return completion("bet")


def saved_iteration(run):
    """Return the iteration after which a run was last saved; −1: never."""
    return max((int(path.name[-6:]) for path in run.glob("state/iteration-*")), default=-1)


def wait(run, iteration, process):
    """Wait until an iteration of a run has been saved."""
    while saved_iteration(run) < iteration:
        assert process.alive(), process.end().output
        time.sleep(0.02)


@pytest.mark.slow
def test_players_that_are_given_roles_play_where_matches_are_played(config, local_run, tmp_path):
    """One is scripted, and one is a snapshot of another run, whose folder all processes see."""
    old = local_run / "population" / "opener-000002"
    assert old.is_dir()
    given = tmp_path / "given.toml"
    given.write_text(
        TINY + 'games."judged_arithmetic(judge=1)".matches = 16\n'
        "cluster = { matches = 8, engine_cpus = 0.5, worker_cpus = 0.5, learner_cpus = 0.5 }\n[roles.player]\n"
        f'"kuhn_poker/second" = "{local_run}@opener-000002"\n"judged_arithmetic(judge=1)/judge" = "scripted:poor"\n'
    )
    here = train(given, run_dir=tmp_path / "here")
    assert_same(here, train(given, "--cluster", "local", run_dir=tmp_path / "there"))
