"""A run that is killed at any moment and resumed ends bit for bit as an unbroken one."""

import json
import os
import random
import signal
import time

import pytest
from support.processes.resumed import VARIANTS
from support.processes.runs import TINY, TrainingProcess, contents, league_train
from support.processes.unbroken import each_once
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from games.registry import make_game
from league.config.load import load
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.theory.exact.exploitability import exploitability
from league.training.board.metrics_log import read_metrics

WINDOWS = [  # moments at which a death is most likely to tear something, in the order of a run
    (".config.toml", 1),  # the configuration is written, but not under its name
    ("population/.partial-main-000000", 3),
    ("state/.iteration-000000", 0),  # the journal has the first results, and no checkpoint has
    ("state/tables/.main-000002", 1),
    (".mixtures.json", 0),  # the snapshot is frozen and rated, and no checkpoint has it
    ("state/.iteration-000002", 2),
    ("state/iteration-000000", 0),  # one checkpoint more than are kept
    ("state/ratings-000002", 0),
    ("state/iteration-000004", 0),  # the last iteration is saved, and its results are not yet published
    ("payoffs.json", 0),
]


@pytest.fixture(scope="module")
def unbroken_runs(tmp_path_factory):
    return each_once(VARIANTS, tmp_path_factory)


def train_through(deaths, config, run_dir):
    """Train and resume until the run's end, killed at each of ("at", window) and ("after", seconds); count kills."""
    for killed, (kind, when) in enumerate([*deaths, ("after", None)]):
        arguments = ["--resume"] if (run_dir / "config.toml").exists() else [config]
        process = TrainingProcess(*arguments, run_dir=run_dir, die_at=when if kind == "at" else None)
        ended = process.end(when if kind == "after" else None)
        if ended.status == 0:
            return killed
        assert ended.status == -signal.SIGKILL, ended.output
    return pytest.fail("the last process was not to be killed")


def random_deaths(number, unbroken, seed):
    rng = random.Random(seed)
    by_clock = [("after", rng.uniform(0.0, unbroken.seconds)) for _ in range(number // 2)]
    deaths = by_clock + [("at", ("", rng.randrange(100))) for _ in range(number - number // 2)]
    return rng.sample(deaths, len(deaths))


# The others are killed by test-slow.
SHORT = ("plain", "free replies", "exploiters", "matches that open matches", "stored starts")
MARKED = [pytest.param(name, marks=[pytest.mark.slow] * (name not in SHORT)) for name in VARIANTS]


@pytest.mark.thorough
@pytest.mark.parametrize("variant", MARKED)
def test_killed_at_random_moments(variant, unbroken_runs, tmp_path):
    unbroken = unbroken_runs(variant)
    train_through(random_deaths(2, unbroken, seed=variant), unbroken.config, tmp_path / "run")
    assert contents(tmp_path / "run") == contents(unbroken.run)


@pytest.mark.thorough
def test_killed_in_every_window(unbroken_runs, tmp_path):
    unbroken = unbroken_runs("plain")
    run = tmp_path / "run"
    for window in WINDOWS:
        arguments = ["--resume"] if (run / "config.toml").exists() else [unbroken.config]
        ended = TrainingProcess(*arguments, run_dir=run, die_at=window).end()
        assert ended.status == -signal.SIGKILL, (window, ended.output)
    train_through([], unbroken.config, run)
    assert contents(run) == contents(unbroken.run)
    events = EventAccumulator(str(run / "tb"))
    events.Reload()
    documented = [(event.step, event.value) for event in events.Scalars("kuhn_poker/exploitability")]
    lines = [line for line in read_metrics(run) if "kuhn_poker/exploitability" in line]
    assert [step for step, _ in documented] == [line["iteration"] for line in lines] == [0, 2, 4, 6]
    assert [value for _, value in documented] == pytest.approx([line["kuhn_poker/exploitability"] for line in lines])


def test_ctrl_c_finishes_the_iteration_and_prints_how_to_resume(unbroken_runs, tmp_path):
    unbroken = unbroken_runs("plain")
    run = tmp_path / "run"
    process = TrainingProcess(unbroken.config, run_dir=run)
    while not (run / "state" / "iteration-000000").exists():
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGINT)
    ended = process.end()
    assert ended.status == 130, ended.output
    state = max((run / "state").glob("iteration-*"))
    iteration = json.loads((state / "state.json").read_text())["iteration"]
    assert 1 <= iteration < 6
    assert [line["iteration"] for line in read_metrics(run)] == list(range(iteration + 1))
    assert f"Stopped after iteration {iteration}" in ended.output
    assert f"league train --resume --run-dir {run}" in ended.output
    train_through([], unbroken.config, run)
    assert contents(run) == contents(unbroken.run)


def test_a_run_has_the_documented_files_and_no_others(unbroken_runs):
    unbroken = unbroken_runs("plain")
    names = {path.name for path in unbroken.run.iterdir()}
    documented = {
        "config.toml",
        "metrics.jsonl",
        "tb",
        "population",
        "payoffs.json",
        "ratings.json",
        "mixtures.json",
        "mixtures.jsonl",
        "episodes",
        "results.sqlite",
    }
    assert names == documented | {"state", ".lock"}
    assert {path.name for path in (unbroken.run / "state").iterdir()} == {
        "iteration-000005",
        "iteration-000006",
        "journal.jsonl",
        "ratings-000004.json",
        "ratings-000006.json",
        "tables",
    }
    assert load(str(unbroken.run / "config.toml")) == load(str(unbroken.config))


def test_roles_bound_to_two_policies_train_both_each_in_its_own_role(unbroken_runs):
    run = unbroken_runs("two policies").run
    snapshots = {path.name for path in (run / "population").iterdir()}
    assert snapshots == {f"{policy}-{step:06d}" for policy in "ab" for step in (0, 2, 4, 6)}
    weights = {name: (run / "population" / name / "model.safetensors").read_bytes() for name in snapshots}
    assert weights["a-000000"] == weights["b-000000"]  # equal at the start, and different afterwards
    assert len(set(weights.values())) == 7
    cells = json.loads((run / "payoffs.json").read_text())["cells"]
    roles = {(player[0], role) for player, _, _, role, *_ in cells if player != "random"}
    assert roles == {("a", "first"), ("b", "second")}
    rated = json.loads((run / "ratings.json").read_text())["ratings"]["kuhn_poker"]
    assert set(rated) == snapshots | {"random"}


def test_scores_by_role_follow_the_policies_that_swap_seats(unbroken_runs):
    """Two policies swap seats after every second iteration; both seats of a cooperative game score alike."""
    lines = [line for line in read_metrics(unbroken_runs("seats that swap").run) if line["iteration"] > 0]
    assert len(lines) == 6
    for line in lines:
        assert line["pair_arithmetic/score/pioneer"] + line["pair_arithmetic/score/observer"] == pytest.approx(1.0)


def test_exact_metrics_of_two_policies_are_those_of_their_players(unbroken_runs):
    """Training's metrics, against the tables that `league exploitability` makes of the same run."""
    run = unbroken_runs("two policies").run
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    spec = make_game("kuhn_poker").spec
    for which, name in (("", "exploitability"), ("@mixture", "mixture_exploitability")):
        table = resolve(f"{run}{which}", spec, Engines()).tabulate(0, 100).table
        assert last[f"kuhn_poker/{name}"] == pytest.approx(exploitability(table), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_twenty_times(variant, unbroken_runs, tmp_path):
    unbroken = unbroken_runs(variant)
    long = tmp_path / "config.toml"
    long.write_text(unbroken.config.read_text().replace("iterations = 6", "iterations = 30"))
    assert league_train(long, run_dir=tmp_path / "unbroken").status == 0
    train_through(random_deaths(24, unbroken, seed=variant), long, tmp_path / "run")
    assert contents(tmp_path / "run") == contents(tmp_path / "unbroken")


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["stored starts", "written tasks"])
def test_killed_fifty_times_a_run_has_the_pool_of_an_undisturbed_one(variant, unbroken_runs, tmp_path):
    unbroken, rng = unbroken_runs(variant), random.Random(variant)
    long = tmp_path / "config.toml"
    long.write_text(unbroken.config.read_text().replace("iterations = 6", "iterations = 60"))
    assert league_train(long, run_dir=tmp_path / "unbroken").status == 0
    deaths = [("at", ("", rng.randrange(100))) for _ in range(50)]
    assert train_through(deaths, long, tmp_path / "run") == 50
    assert contents(tmp_path / "run") == contents(tmp_path / "unbroken")


@pytest.mark.slow
def test_killed_before_every_access_to_the_disk_until_the_second_snapshot_is_saved(unbroken_runs, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(TINY.replace("iterations = 6", "iterations = 1").replace("matches = 64", "matches = 8"))
    assert league_train(config, run_dir=tmp_path / "unbroken").status == 0
    expected, status = contents(tmp_path / "unbroken"), -signal.SIGKILL
    for access in range(1000):
        run = tmp_path / str(access)
        status = TrainingProcess(config, run_dir=run, die_at=("", access)).end().status
        if status == 0:
            break
        train_through([], config, run)
        assert contents(run) == expected, access
    assert status == 0
    assert access > 100
