"""A population of runs is bred within its budget, continues where it was killed, and its elite never gets worse."""

import json
import shutil

import pytest
from support.processes.runs import TINY

from league.cli import main
from league.config.load import load, load_run_config
from league.config.matchmaking import DescentConfig
from league.lab.breeding import breeding
from league.lab.breeding.breeding import BREED_FILE, breed, rule_of
from league.population.storage.population import Population
from league.training.board.metrics_log import read_metrics
from league.training.checkpoints.checkpoint import finished_iterations, has_checkpoint
from league.training.loop.failures import LearningFailed
from league.training.loop.loop import League

SMALL = """
iterations = 4
snapshot_every = 2
games.kuhn_poker.matches = 32
optimizer.learning_rate = 1e-6
distil.steps = 5
descent = { rule = "mutate", members = 2, generations = 2, matches = 32 }
"""


def settings(tmp_path, rule="mutate"):
    lines = [line for line in TINY.splitlines() if f"\n{line.partition(' =')[0]} =" not in SMALL]
    config = tmp_path / "small.toml"
    config.write_text("\n".join(lines) + SMALL.replace("mutate", rule))
    return config


def snapshots(record, folder):
    """Return the newest snapshot of each member by its run."""
    runs = [member["run"] for generation in record["history"] for member in generation["members"]]
    return {run: Population(folder / run / "population").newest("main") for run in runs}


@pytest.mark.thorough
def test_settings_mutate_within_the_budget_and_the_elite_never_gets_worse(tmp_path, capsys):
    config, folder = settings(tmp_path), tmp_path / "bred"
    assert main(["breed", str(config), "--run-dir", str(folder), "--json"]) == 0
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    assert "2 generations of 2 members, 2 iterations each: 8 iterations" in printed.err
    assert record["spent"]["iterations"] == record["budget"]["total"] == 8
    values = [generation["elite"]["values"]["kuhn_poker"] for generation in record["history"]]
    best = [max(m["values"]["kuhn_poker"] for m in generation["members"]) for generation in record["history"]]
    assert values == [best[0], max(best)]
    newest = snapshots(record, folder)
    assert {snapshot.step for snapshot in newest.values()} == {2, 4}
    first, second = record["history"][1]["members"]
    changed = next(member for member in (first, second) if member["how"] != "went on")
    assert newest[changed["run"]].how == changed["how"]
    assert list(newest[changed["run"]].parents) == changed["parents"]
    rate = load_run_config(folder / changed["run"]).optimizer.learning_rate
    assert rate == pytest.approx(changed["settings"]["optimizer.learning_rate"])
    before = (folder / BREED_FILE).read_bytes()
    assert main(["breed", "--resume", "--run-dir", str(folder)]) == 0
    assert (folder / BREED_FILE).read_bytes() == before, "all was done"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "origin"),
    [
        ("go_on", "trained"),
        ("go_back", "trained"),
        ("distil", "distilled"),
        ("merge", "merged"),
        ("cross", "crossed"),
        ("generations", "reset"),
    ],
)
def test_every_rule_breeds_runs_whose_snapshots_say_where_they_come_from(tmp_path, rule, origin):
    told = []
    record = breed(load(str(settings(tmp_path, rule))), tmp_path / "bred", told.append).record()
    assert len(told) == 2
    members = [folder for folder in record["history"][1]["members"] if folder["how"] != "went on"]
    assert bool(members) == (rule not in ("go_on", "go_back"))
    newest = snapshots(record, tmp_path / "bred")
    for member in members:
        snapshot = newest[member["run"]]
        following = [s for s in Population(snapshot.path.parent).all() if s.step > 2]
        assert following[0].origin == origin
        assert list(following[0].parents) == member["parents"]


@pytest.mark.thorough
def test_members_may_learn_in_processes_of_their_own_while_others_play(tmp_path):
    beside = ["mode=ahead", "processes=each", "max_staleness=1"]
    weighted = ["objective.truncate=2", "optimizer.max_gap=1"]
    config = load(str(settings(tmp_path)), [*(f"async_learners.{setting}" for setting in beside), *weighted])
    record = breed(config, tmp_path / "bred", lambda _: None).record()
    assert record["spent"]["iterations"] == record["budget"]["total"]
    assert {snapshot.step for snapshot in snapshots(record, tmp_path / "bred").values()} == {2, 4}
    for member in record["history"][1]["members"]:
        assert list(read_metrics(tmp_path / "bred" / member["run"]))[-1]["staleness"] == 1.0


@pytest.mark.thorough
def test_a_rule_between_generations_takes_the_place_of_the_one_within_them(tmp_path):
    """One breeds by settings, and every second generation begins distilled, with the settings that were found."""
    composed = ["iterations=6", "descent.generations=3", "descent.between=distil", "descent.every=2"]
    config = load(str(settings(tmp_path)), composed)
    record = breed(config, tmp_path / "bred", lambda _: None).record()
    within, between = ([member["how"] for member in one["members"]] for one in record["history"][1:])
    assert not any("distilled" in how for how in within)
    assert any("explores" in how for how in within)
    assert all(how.startswith("distilled from") for how in between)
    found = [[member["settings"] for member in one["members"]] for one in record["history"]]
    assert found[2] == found[1] != found[0]


def test_which_rule_follows_which_generation():
    composed = DescentConfig(rule="mutate", between="distil", every=3)
    assert [rule_of(composed, generation) for generation in range(1, 8)] == [
        "mutate", "mutate", "distil", "mutate", "mutate", "distil", "mutate",
    ]  # fmt: skip
    assert {rule_of(DescentConfig(rule="merge", every=1), generation) for generation in range(1, 8)} == {"merge"}


@pytest.mark.slow
def test_what_was_killed_ends_as_it_would_have(tmp_path):
    """Killed after the first generation: the second is the same."""
    config = load(str(settings(tmp_path)))
    whole = breed(config, tmp_path / "whole", lambda _: None).record()

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        breed(config, tmp_path / "killed", stop)
    assert breed(None, tmp_path / "killed", lambda _: None).record() == whole


@pytest.mark.thorough
def test_what_was_killed_in_the_first_iteration_of_its_root_ends_as_it_would_have(tmp_path, monkeypatch):
    """The root has a checkpoint from iteration 0 on, before there is anything that members could share."""
    config = load(str(settings(tmp_path)), ["descent.generations=1", "iterations=2"])
    whole = breed(config, tmp_path / "whole", lambda _: None).record()

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(League, "submit", killed)
        with pytest.raises(KeyboardInterrupt):
            breed(config, tmp_path / "killed", lambda _: None)
    assert has_checkpoint(tmp_path / "killed" / "root")
    assert finished_iterations(tmp_path / "killed" / "root") == 0
    assert breed(None, tmp_path / "killed", lambda _: None).record() == whole


@pytest.mark.thorough
def test_a_member_whose_training_fails_ranks_last_and_is_replaced_by_the_best(tmp_path, monkeypatch):
    """A learning rate of 1e30 fails in its first update; resuming does not train it again, and replaces it alike."""
    told, config = [], settings(tmp_path)
    changes = ['descent.mutate={"optimizer.learning_rate"=[1e-6, 1e30]}', "descent.factor=1e36", "descent.resample=0.0"]
    bred = breed(load(str(config), [*changes, "seed=2"]), tmp_path / "bred", told.append)
    first, second = bred.history
    assert [member.get("failed", "")[:20] for member in first["members"]] == ["", "Policy 'main', updat"]
    assert first["ranking"] == ["g000/m0", "g000/m1"]
    assert first["members"][1]["values"] is None
    assert any(line.startswith(f"{tmp_path / 'bred/g000/m1'} failed, ranks last") for line in told)
    assert second["members"][1]["parents"] == ["g000/m0"]
    assert second["members"][1]["how"].startswith("took over g000/m0, as g000/m1 failed")
    (tmp_path / "bred" / BREED_FILE).unlink()  # killed before the first generation was written down
    shutil.rmtree(tmp_path / "bred" / "g001")
    trained, original = [], breeding.resume
    monkeypatch.setattr(breeding, "resume", lambda run, **words: trained.append(run.name) or original(run, **words))
    assert breed(None, tmp_path / "bred", told.append).history == bred.history
    assert trained == ["m0", "m1"], "those of the second generation alone"
    assert sum("failed, ranks last" in line for line in told) == 1


def test_a_generation_in_which_all_fail_ends_breeding_with_the_reason(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise LearningFailed("The weights are not finite.")

    monkeypatch.setattr(breeding, "resume", fail)
    with pytest.raises(LearningFailed, match=r"All members of .*g000 failed, the last with: The weights are not"):
        breed(load(str(settings(tmp_path, "go_on"))), tmp_path / "bred", lambda _: None)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pocket-returns", "--set", "descent.generations=7"], "Set iterations to a multiple of 70, such as 210."),
        (["pocket-returns", "--set", 'descent.mutate={"objective.name"=[1, 2]}'], "Name settings that are numbers."),
        (["pocket-returns", "--set", 'descent.mutate={"objective.entropy"=[2, 1]}'], "it should rise and be above 0"),
        (["--resume"], "name it with --run-dir"),
        ([], "Name what to breed"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    assert main(["breed", *words]) == 2
    assert sentence in capsys.readouterr().err
