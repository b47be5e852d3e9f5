"""What a run refuses, what stops it, and that neither loses anything that was saved."""

import hashlib
import json
import math
import os
import shutil
import signal
from functools import partial
from itertools import count

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.models.pocket import pocket
from support.processes.runs import TINY, TrainingProcess, contents, league_train

from arena.lm.finite import NotFinite
from league.cli import main
from league.population.storage.lock import run_lock
from league.population.storage.population import Population
from league.training.learning import learner as learning
from league.training.snapshots import freeze
from learners.advantages.rule import unweighted
from learners.batching import ChoiceRow
from learners.update.policy import Policy

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """Return a configuration's file and the run that was trained by it without a break."""
    folder = tmp_path_factory.mktemp("unbroken")
    (folder / "tiny.toml").write_text(TINY)
    ended = league_train(folder / "tiny.toml", run_dir=folder / "run")
    assert ended.status == 0, ended.output
    return folder / "tiny.toml", folder / "run"


@pytest.fixture(scope="module")
def killed(unbroken, tmp_path_factory):
    """Return a run that died in its fifth iteration, with snapshots after 0, 2 and 4."""
    run = tmp_path_factory.mktemp("killed") / "run"
    ended = TrainingProcess(unbroken[0], run_dir=run, die_at=("state/.iteration-000005", 0)).end()
    assert ended.status == -signal.SIGKILL, ended.output
    return run


@pytest.fixture
def run(killed, tmp_path):
    return shutil.copytree(killed, tmp_path / "run")


def weights_of(run, snapshot):
    path = run / "population" / snapshot / "model.safetensors"
    path.chmod(0o644)
    return path


# the first is an opponent, the second gives the models' shape
@pytest.mark.parametrize("snapshot", ["main-000002", "main-000004"])
def test_a_snapshot_with_one_bit_flipped_is_refused_by_name(snapshot, run, unbroken):
    path = weights_of(run, snapshot)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    ended = league_train("--resume", run_dir=run)
    assert ended.status == 2, ended.output
    assert f"Snapshot {snapshot} has changed since it was frozen: model.safetensors" in ended.output
    assert "Traceback" not in ended.output
    data[-1] ^= 1
    path.write_bytes(data)
    assert league_train("--resume", run_dir=run).status == 0
    assert contents(run) == contents(unbroken[1])


def test_a_snapshot_of_another_shape_is_refused_by_name(run):
    path = weights_of(run, "main-000002")
    tensors = load_file(path)
    name = "model.layers.0.mlp.up_proj.weight"
    tensors[name] = torch.zeros(16, 32)
    save_file(tensors, path, metadata={"format": "pt"})
    card = run / "population" / "main-000002" / "snapshot.json"
    card.chmod(0o644)
    facts = json.loads(card.read_text())
    facts["sha256"]["model.safetensors"] = hashlib.sha256(path.read_bytes()).hexdigest()
    card.write_text(json.dumps(facts))
    ended = league_train("--resume", run_dir=run)
    assert ended.status == 2, ended.output
    assert "main-000002 do not fit" in ended.output
    assert name in ended.output
    assert "Traceback" not in ended.output


def test_a_run_resumes_without_a_snapshot_that_was_deleted(run):
    shutil.rmtree(run / "population" / "main-000002")
    ended = league_train("--resume", run_dir=run)
    assert ended.status == 0, ended.output
    assert {path.name for path in (run / "population").iterdir()} == {"main-000000", "main-000004", "main-000006"}


def test_a_run_without_any_snapshot_left_is_refused(run):
    shutil.rmtree(run / "population")
    ended = league_train("--resume", run_dir=run)
    assert ended.status == 2, ended.output
    assert "no policy with snapshots named 'main'" in ended.output


def test_a_run_in_use_is_refused_with_the_process_named(run, unbroken):
    with run_lock(run):
        ended = league_train("--resume", run_dir=run)
    assert ended.status == 2, ended.output
    assert f"{run} is in use by process {os.getpid()}." in ended.output
    assert league_train("--resume", run_dir=run).status == 0
    assert contents(run) == contents(unbroken[1])


def test_a_directory_that_is_not_empty_is_refused_and_left_alone(unbroken, tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("draft")
    assert main(["train", str(unbroken[0]), "--run-dir", str(tmp_path)]) == 2
    assert "is not empty (it holds thesis.tex)" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.tex"}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("credit.rule=rea", "no credit rule named 'rea'. Did you mean rae?"),
        ('evaluation.anchors=["randon"]', "no scripted player named 'randon'. Did you mean random?"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_written(setting, message, unbroken, tmp_path, capsys):
    assert main(["train", str(unbroken[0]), "--run-dir", str(tmp_path / "run"), "--set", setting]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_nan_stops_the_run_with_its_batch_saved_and_costs_no_iteration(run, unbroken, monkeypatch, capsys):
    def nan_credit(_config, state, trajectories, _evidence):
        return unweighted([[math.nan] * len(trajectory.turns) for trajectory in trajectories], state.credit)

    with monkeypatch.context() as patch:
        patch.setattr(learning, "credit_turns", nan_credit)
        assert main(["train", "--resume", "--run-dir", str(run)]) == 1
    output = capsys.readouterr().err
    assert "Policy 'main', update 5, step 1: the loss is nan" in output
    assert f"The batch is in {run / 'failed-batch.json'}." in output
    batch = json.loads((run / "failed-batch.json").read_text())
    assert batch["policy"] == "main"
    assert batch["turns"] > 64  # there are 64 matches of at least two turns, of which one or both are trained
    counts = ChoiceRow._fields.index("counts")
    assert sum(sum(row[counts]) for row in batch["choice"]) == batch["turns"]
    (run / "failed-batch.json").unlink()
    assert league_train("--resume", run_dir=run).status == 0
    assert contents(run) == contents(unbroken[1])


@pytest.mark.parametrize(("inner_steps", "failed"), [(4, "update 1, step 2"), (1, "update 2, step 1")])
def test_a_gradient_that_overflows_stops_the_run_with_its_batch_saved(inner_steps, failed, unbroken, tmp_path):
    settings = ["--set", "optimizer.learning_rate=1e20", "--set", f"optimizer.inner_steps={inner_steps}"]
    ended = league_train(unbroken[0], *settings, run_dir=tmp_path / "run")
    assert ended.status == 1, ended.output
    assert "Traceback" not in ended.output
    assert f"Policy 'main', {failed}: the loss is" in ended.output
    assert "gradient norm nan" in ended.output
    assert (tmp_path / "run" / "failed-batch.json").is_file()


def test_a_policy_whose_last_step_broke_it_plays_no_match(run, unbroken, monkeypatch, capsys):
    """A step from finite numbers may end beyond them: only the next match, or the freezing, can tell."""
    step, steps = Policy.step, count(1)

    def break_weights(policy, learning_rate):
        step(policy, learning_rate)
        if next(steps) % 4 == 0:  # the last of an update's
            policy.parameters["model.embed_tokens.weight"].data.fill_(math.inf)

    with monkeypatch.context() as patch:
        patch.setattr(Policy, "step", break_weights)
        assert main(["train", "--resume", "--run-dir", str(run)]) == 1
    output = capsys.readouterr().err
    assert "league: main cannot play: its model computes numbers that are not finite" in output
    assert "Train again with a lower optimizer.learning_rate." in output
    assert not (run / "population/main-000006").exists()
    assert main(["train", "--resume", "--run-dir", str(run)]) == 1  # iteration 5 was saved with what it had learned
    assert league_train("--resume", "--from", "4", run_dir=run).status == 0
    shutil.rmtree(run / "set_aside")
    assert contents(run) == contents(unbroken[1])


def test_weights_that_are_not_finite_are_never_frozen(tmp_path):
    policy = Policy("main", pocket(), weight_decay=0.0, magnet=False, reference=False)
    next(iter(policy.parameters.values())).data.view(-1)[-1] = math.nan
    population = Population(tmp_path)
    with pytest.raises(NotFinite, match=r"^main cannot play: .* in its weights is not finite"):
        population.add("main", 1, None, partial(freeze._save, policy))
    assert not population.all()
    assert not Population(tmp_path).all()


def test_a_policy_whose_turn_never_comes_stops_nothing(tmp_path):
    """A model without a cold start never replies legally, so the first seat forfeits every match."""
    (tmp_path / "tiny.toml").write_text(TINY)
    overrides = [
        'roles={reply="free", on_illegal="forfeit", max_reply_tokens=2, policy={"kuhn_poker/second"="other"}}',
        "cold_start.steps=0",
        "iterations=2",
        "snapshot_every=2",
    ]
    options = [word for override in overrides for word in ("--set", override)]
    ended = league_train(tmp_path / "tiny.toml", *options, run_dir=tmp_path / "run")
    assert ended.status == 0, ended.output
