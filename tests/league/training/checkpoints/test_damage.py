"""What is read back in is trusted only when it is what was written: files × damages, and the way back."""

import json
import shutil
import signal
import struct

import pytest
from support.processes.damage import DAMAGES, damage, files, flipped
from support.processes.learners import EACH
from support.processes.runs import TINY, TrainingProcess, contents, league_train

from games.common.errors import UsageError
from league.cli.dispatch import main
from league.population.results.match_store import MatchStore
from league.population.storage.run_dir import SET_ASIDE
from league.training.loop.recovery import go_back
from league.training.loop.session import resume

pytestmark = pytest.mark.thorough

SMALL = (
    TINY.replace("iterations = 6", "iterations = 4")
    .replace("matches = 64", "matches = 16")
    .replace("episodes_kept = 3", "episodes_kept = 0")
    + 'policies.probe.league_role = "main_exploiter"\nexploiters = { freeze_from = 1, freeze_after = 2 }\n'
)
STATE = {  # kinds of file of the state of a run that ended after iteration 4, by what the file is for
    "weights": "state/iteration-000004/main.safetensors",
    "record": "state/iteration-000004/state.json",
    "manifest": "state/iteration-000004/manifest.json",
    "journal": "state/journal.jsonl",
    "ratings": "state/ratings-000004.json",
    "table": "state/tables/main-000002.kuhn_poker.json",
    "initial weights": "initial_weights/probe.safetensors",
    "manifest of initial weights": "initial_weights/manifest.json",
    "matches": "results.sqlite",
    "snapshot": "population/main-000004/model.safetensors",
    "snapshot's card": "population/main-000004/snapshot.json",
    "metrics": "metrics.jsonl",
    "mixtures": "mixtures.jsonl",
}
HARMLESS = {
    ("table", "deleted"),  # it is computed again
    ("metrics", "one byte longer"),  # as a kill in the middle of a line leaves it
    ("journal", "one byte longer"),
    ("metrics", "middle bit flipped"),  # a point of a curve
    ("mixtures", "one byte longer"),
}
OF_NO_USE = {  # where SQLite has unused bytes
    ("matches", "middle bit flipped"),
    ("matches", "last bit flipped"),
    ("matches", "one byte longer"),
}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """Return a run that ended after its fourth iteration."""
    folder = tmp_path_factory.mktemp("unbroken")
    (folder / "small.toml").write_text(SMALL)
    ended = league_train(folder / "small.toml", run_dir=folder / "run")
    assert ended.status == 0, ended.output
    return folder / "run"


@pytest.fixture
def run(unbroken, tmp_path):
    return shutil.copytree(unbroken, tmp_path / "run")


def matches(run):
    """Return a run's matches; None where they cannot be read."""
    try:
        with MatchStore(run / "results.sqlite", reads=True) as store:
            return list(store.matches("kuhn_poker"))
    except UsageError:
        return None


def refusal(run):
    """Return the sentences by which a run is not resumed, without anything done to it but to its lock."""
    before = files(run)
    with pytest.raises(UsageError) as refused:
        resume(run)
    after = files(run)
    assert {name for name in before | after if before.get(name) != after.get(name)} <= {".lock"}
    return str(refused.value)


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("name", STATE)
def test_a_damaged_file_is_refused_by_name_with_what_can_be_done(name, kind, unbroken, run):
    damage(run / STATE[name], kind)
    if (name, kind) in HARMLESS or ((name, kind) in OF_NO_USE and matches(run) == matches(unbroken)):
        assert resume(run).finished
        return
    sentence = refusal(run)
    assert STATE[name].rpartition("/")[2] in sentence
    assert any(words in sentence for words in ("Restore", "restore", "Delete it")), sentence


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("record", '"next_match":', '"next_match":1'),
        ("journal", "main-000002", "main-000000"),
        ("ratings", "25.0", "26.0"),
        ("table", "0.", "1."),
    ],
)
def test_another_digit_or_name_is_refused(name, old, new, run):
    path = run / STATE[name]
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    assert f"{path} is damaged" in refusal(run)


def test_a_file_that_does_not_belong_into_a_checkpoint_is_refused(run):
    (run / "state/iteration-000004/other.safetensors").write_bytes(b"")
    assert "other.safetensors is damaged (it was put there by something else)" in refusal(run)


def test_a_checkpoint_under_another_name_is_refused(run):
    shutil.rmtree(run / "state/iteration-000004")
    (run / "state/iteration-000003").rename(run / "state/iteration-000004")
    assert "it is the checkpoint of iteration 3 under another name" in refusal(run)


@pytest.mark.parametrize(
    ("name", "iteration"),
    [
        ("weights", 3),
        ("record", 3),
        ("manifest", 3),
        ("journal", 4),
        ("ratings", 4),
        ("table", 4),
        ("metrics", 4),
        ("mixtures", 4),
    ],
)
def test_going_back_as_the_error_says_ends_with_the_same_bits(name, iteration, unbroken, run, capsys):
    damage(run / STATE[name], "another file" if name in ("metrics", "mixtures") else "middle bit flipped")
    if name not in ("table", "metrics", "mixtures"):
        assert f"league train --resume --from {iteration} --run-dir {run}" in refusal(run)
    assert main(["train", "--resume", "--from", str(iteration), "--run-dir", str(run)]) == 0
    assert f"Continuing from iteration {iteration}." in capsys.readouterr().err
    assert len(list((run / SET_ASIDE).iterdir())) >= 1
    shutil.rmtree(run / SET_ASIDE)
    expected, actual = contents(unbroken), contents(run)
    differing = {path for path in expected | actual if expected.get(path) != actual.get(path)}
    if name == "journal":  # it was summed up again, iteration by iteration
        differing -= {STATE["journal"], STATE["record"], STATE["manifest"], "payoffs.json"}
        newest = [json.loads((folder / "payoffs.json").read_text())["iteration"] for folder in (run, unbroken)]
        assert newest[0] == newest[1]
    may_differ = {STATE[kind] for kind in ("metrics", "table")} if name in ("metrics", "table") else set()
    assert differing <= may_differ | ({STATE["mixtures"]} if name == "mixtures" else set())


def test_going_back_cuts_what_is_later_off_both_logs(unbroken, run):
    """Before the first iteration is trained again: it may be long until then, or never come."""
    later = {name: (run / name).read_bytes() for name in ("metrics.jsonl", "mixtures.jsonl")}
    go_back(run, 3)
    for name, content in later.items():
        kept = [json.loads(line)["iteration"] for line in (run / name).read_bytes().splitlines()]
        assert kept == [n for line in content.splitlines() if (n := json.loads(line)["iteration"]) <= 3]
    assert resume(run).finished
    assert (run / "mixtures.jsonl").read_bytes() == later["mixtures.jsonl"]


def test_going_back_without_the_matches_says_that_they_are_lost(run, capsys):
    (run / "results.sqlite").unlink()
    assert "results.sqlite is damaged (it is missing)" in refusal(run)
    assert main(["train", "--resume", "--from", "3", "--run-dir", str(run)]) == 0
    assert "results.sqlite is empty: the matches up to iteration 3 are lost." in capsys.readouterr().err
    assert resume(run).finished  # from now on the checkpoint knows the matches that there are


def test_what_cannot_be_made_again_is_not_gone_back_from(run):
    damage(run / STATE["journal"], "cut in half")
    damage(run / STATE["matches"], "cut in half")
    assert "Restore it from a copy: this run has no other state to continue from." in refusal(run)
    before = files(run)
    with pytest.raises(UsageError, match=r"journal\.jsonl is damaged \(and so is .*results\.sqlite"):
        resume(run, from_iteration=4)
    assert files(run) | {".lock": b""} == before | {".lock": b""}


def test_going_back_to_nowhere_is_refused_with_where_one_can(run, capsys):
    assert main(["train", "--resume", "--from", "1", "--run-dir", str(run)]) == 2
    assert "has no checkpoint of that iteration. It has: 3, 4." in capsys.readouterr().err
    assert main(["train", "pocket", "--from", "1", "--run-dir", str(run)]) == 2
    assert "add --resume" in capsys.readouterr().err


@pytest.mark.parametrize("gone", ["emptied", "deleted"])
def test_a_trained_run_without_state_is_not_trained_again(gone, run):
    shutil.rmtree(run / "state")
    if gone == "emptied":
        (run / "state").mkdir()
    sentence = refusal(run)
    assert "has trained (its population holds" in sentence
    assert f"league train {run / 'config.toml'}" in sentence
    for path in (run / "population").glob("*-00000[1-9]"):
        shutil.rmtree(path)
    assert "has trained (metrics.jsonl has its iterations)" in refusal(run)


def test_a_saved_state_may_be_kept_alone(unbroken, tmp_path):
    config = tmp_path / "small.toml"
    config.write_text("checkpoints = 1\n" + SMALL.replace("iterations = 4", "iterations = 2"))
    ended = league_train(config, run_dir=tmp_path / "run")
    assert ended.status == 0, ended.output
    assert [path.name for path in (tmp_path / "run/state").glob("iteration-*")] == ["iteration-000002"]
    damage(tmp_path / "run/state/iteration-000002/state.json", "emptied")
    assert "this run has no other state to continue from" in refusal(tmp_path / "run")


TWO = SMALL.partition("policies.probe")[0] + (
    'roles.policy = { "kuhn_poker/first" = "opener", "kuhn_poker/second" = "caller" }\n'
)
APART = {
    "a learner's weights": "learners/opener/000003/opener.safetensors",
    "a learner's facts": "learners/opener/000003/learning.json",
    "a learner's manifest": "learners/opener/000003/manifest.json",
    "records": "records.sqlite",
}


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """Return a run with learner processes that was killed in its third iteration, and the same run unbroken."""
    folder = tmp_path_factory.mktemp("apart")
    (folder / "two.toml").write_text(TWO)
    arguments = [folder / "two.toml", *EACH]
    assert league_train(*arguments, run_dir=folder / "whole").status == 0
    ended = TrainingProcess(*arguments, run_dir=folder / "run", die_at=("state/.iteration-000003", 0)).end()
    assert ended.status == -signal.SIGKILL, ended.output
    return folder


@pytest.mark.parametrize(
    "kind",
    [
        "emptied",
        "middle bit flipped",
        *(pytest.param(name, marks=pytest.mark.thorough) for name in ("cut in half", "another file")),
    ],
)
@pytest.mark.parametrize("name", APART)
def test_a_damaged_file_of_a_learner_is_refused_by_name_and_can_be_done_without(name, kind, apart, tmp_path):
    run = shutil.copytree(apart / "run", tmp_path / "run")
    path = run / APART[name]
    damage(path, kind)
    ended = league_train("--resume", run_dir=run)
    if name == "records" and ended.status == 0:  # SQLite has no use for that page, or its log has it
        assert unlike(apart, run) == []
        return
    assert ended.status == 2, ended.output
    assert "Traceback" not in ended.output
    assert str(path) in ended.output
    if kind == "cut in half":
        assert f"league train --resume --from 2 --run-dir {run}" in ended.output
        assert league_train("--resume", "--from", "2", run_dir=run).status == 0
        assert unlike(apart, run) == []


def unlike(apart, run):
    """Return the files of a run that are not as in the unbroken one."""
    whole, mended = contents(apart / "whole"), contents(run)
    return [name for name in sorted(whole) if not name.startswith("learners/") and whole[name] != mended.get(name)]


def test_a_published_file_that_is_damaged_is_named(run, capsys):
    for name in ("ratings.json", "mixtures.json"):
        for content in ("", "{", "[]", "null", '{"kuhn_poker": 3}'):
            whole = (run / name).read_text()
            (run / name).write_text(content)
            player = f"{run}@mixture"
            for words in (
                ["standings", str(run)],
                ["match", player, "random", "--game", "kuhn_poker", "--matches", "2"],
            ):
                status = main(words)
                errors = capsys.readouterr().err
                assert status in (0, 2), errors
                assert status == 0 or f"{run / name} is damaged" in errors
            (run / name).write_text(whole)


def test_one_bit_of_a_stored_return_is_noticed(run):
    path = run / "results.sqlite"
    content = path.read_bytes()
    place = content.index(struct.pack("<dd", 1.0, -1.0))  # a match's two returns
    path.write_bytes(flipped(content, place + 7))
    assert "results.sqlite is damaged (its matches of the iterations up to 4 are not those of the run)" in refusal(run)
