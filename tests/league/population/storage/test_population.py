"""Snapshots: complete or absent, immutable, refused by name when they changed."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.source import ROOT

from games.common.errors import UsageError
from league.population.storage import immutable_folder
from league.population.storage.population import Origin, Population


def writer(content: bytes = b"weights") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(content)
        (folder / "extra").mkdir()
        (folder / "extra" / "chat_template.jinja").write_text("{{ messages }}")

    return write


def test_a_snapshot_is_a_folder_in_the_writers_layout_with_a_card(tmp_path: Path) -> None:
    population = Population(tmp_path / "population")
    snapshot = population.add("main", 120, None, writer(b"abc"))
    assert snapshot.id == "main-000120"
    assert snapshot.path == tmp_path / "population" / "main-000120"
    assert (snapshot.path / "model.safetensors").read_bytes() == b"abc"
    assert set(snapshot.sha256) == {"config.json", "model.safetensors", "extra/chat_template.jinja"}
    assert snapshot.sha256["model.safetensors"] == hashlib.sha256(b"abc").hexdigest()
    assert json.loads((snapshot.path / "snapshot.json").read_text())["step"] == 120


def test_reopening_gives_equal_snapshots_in_the_order_of_their_steps(tmp_path: Path) -> None:
    population = Population(tmp_path)
    first = population.add("main", 5, None, writer())
    rival = population.add("rival", 5, None, writer())
    second = population.add("main", 1_000_000, first.id, writer())
    third = population.add("main", 10_000_000, second.id, writer())
    again = Population(tmp_path)
    assert again.all() == [first, rival, second, third]
    assert again.all("main") == [first, second, third]
    assert again.newest("main") == third
    assert again.newest("main").parent == second.id
    assert again.get(rival.id) == rival
    assert len(again) == 4


def test_the_order_is_that_after_reopening_whoever_is_added_first(tmp_path: Path) -> None:
    """Rating matches draw opponents by their places: in another order a resumed run would have others."""
    population = Population(tmp_path)
    for policy in ("wolf", "main"):
        population.add(policy, 0, None, writer())
    assert [snapshot.id for snapshot in population.all()] == ["main-000000", "wolf-000000"]
    assert Population(tmp_path).all() == population.all()


def test_a_snapshot_says_all_that_it_comes_from_and_how(tmp_path: Path) -> None:
    """One of other runs too; by itself a snapshot comes from its parent, as those of older cards do."""
    population = Population(tmp_path)
    first = population.add("main", 5, None, writer())
    merged = population.add("main", 6, first.id, writer(), Origin.MERGED, ("a@main-000005", first.id), "merged by hand")
    trained = population.add("main", 7, merged.id, writer())
    assert (first.parents, first.how) == ((), "the weights before training")
    assert (trained.parents, trained.how) == ((merged.id,), "trained on")
    assert Population(tmp_path).get(merged.id) == merged
    assert (merged.parents, merged.how) == (("a@main-000005", "main-000005"), "merged by hand")
    card = tmp_path / trained.id / "snapshot.json"
    facts = json.loads(card.read_text())
    card.write_text(json.dumps({name: facts[name] for name in facts if name not in ("parents", "how")}))
    assert Population(tmp_path).get(trained.id) == trained


def test_files_are_read_only(tmp_path: Path) -> None:
    snapshot = Population(tmp_path).add("main", 0, None, writer())
    modes = {path.stat().st_mode & 0o777 for path in snapshot.path.rglob("*") if path.is_file()}
    assert modes == {0o444}


def test_an_unknown_snapshot_is_answered_with_the_nearest(tmp_path: Path) -> None:
    population = Population(tmp_path)
    population.add("main", 10, None, writer())
    with pytest.raises(UsageError, match=r"no snapshot named 'main-00010'\. Did you mean main-000010"):
        population.get("main-00010")
    with pytest.raises(UsageError, match=r"no policy with snapshots named 'man'\. Did you mean main"):
        population.newest("man")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "extra/chat_template.jinja"])
def test_a_changed_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    Population(tmp_path).add("main", 3, None, writer())
    file = tmp_path / "main-000003" / name
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    population = Population(tmp_path)
    with pytest.raises(UsageError, match=f"main-000003 has changed since it was frozen: {name}"):
        population.verify(population.get("main-000003"))


def test_a_missing_and_a_foreign_file_are_refused_by_name(tmp_path: Path) -> None:
    Population(tmp_path).add("main", 3, None, writer())
    (tmp_path / "main-000003" / "config.json").unlink()
    (tmp_path / "main-000003" / "weights.pkl").write_bytes(b"no")
    population = Population(tmp_path)
    with pytest.raises(UsageError, match=r"config\.json, weights\.pkl"):
        population.verify(population.get("main-000003"))


def test_files_are_hashed_once_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Population(tmp_path).add("main", 3, None, writer())
    hashed: list[Path] = []
    original = immutable_folder.sha256
    monkeypatch.setattr(immutable_folder, "sha256", lambda path: hashed.append(path) or original(path))
    population = Population(tmp_path)
    assert not hashed, "opening reads no weights"
    for _ in range(3):
        population.verify(population.get("main-000003"))
    assert len(hashed) == 3, "three files, once each"


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    population = Population(tmp_path)

    def fail(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        population.add("main", 1, None, fail)
    with pytest.raises(ValueError, match=r"no model weights \(\*\.safetensors\), only \['model\.pkl'\]"):
        population.add("main", 1, None, lambda folder: (folder / "model.pkl").write_bytes(b"x") and None)
    assert list(tmp_path.iterdir()) == []
    assert population.add("main", 1, None, writer()).id == "main-000001"


def test_invalid_snapshots_are_refused(tmp_path: Path) -> None:
    population = Population(tmp_path)
    population.add("main", 5, None, writer())
    with pytest.raises(ValueError, match="cannot add snapshot main-000005"):
        population.add("main", 5, None, writer())
    with pytest.raises(ValueError, match="newer one of step 5"):
        population.add("main", 4, None, writer())
    with pytest.raises(UsageError, match="no snapshot named 'main-000004'"):
        population.add("main", 6, "main-000004", writer())
    for name in ("../main", "", ".main", "a/b"):
        with pytest.raises(UsageError, match="A policy cannot be named"):
            population.add(name, 6, None, writer())


def test_discarding_goes_back_to_the_saved_step_and_removes_incomplete_folders(tmp_path: Path) -> None:
    population = Population(tmp_path)
    for step in (10, 20, 30):
        population.add("main", step, None, writer())
    (tmp_path / ".partial-main-000040-1").mkdir()
    (tmp_path / ".partial-main-000040-1" / "model.safetensors").write_bytes(b"half")
    again = Population(tmp_path)
    assert [snapshot.step for snapshot in again.all()] == [10, 20, 30]
    assert again.discard_after(10) == ["main-000020", "main-000030"]
    assert [path.name for path in tmp_path.iterdir()] == ["main-000010"]
    assert again.newest("main").step == 10
    assert again.add("main", 20, "main-000010", writer()).step == 20


@pytest.mark.parametrize("card", [None, "{", '{"id": "main-000001"}', "[]"])
def test_a_folder_without_a_readable_card_is_refused_by_name(tmp_path: Path, card: str | None) -> None:
    (tmp_path / "main-000001").mkdir()
    if card is not None:
        (tmp_path / "main-000001" / "snapshot.json").write_text(card)
    with pytest.raises(UsageError, match="main-000001 is not a snapshot"):
        Population(tmp_path)


def test_a_renamed_snapshot_is_refused(tmp_path: Path) -> None:
    Population(tmp_path).add("main", 1, None, writer())
    (tmp_path / "main-000001").rename(tmp_path / "main-000002")
    with pytest.raises(UsageError, match="holds snapshot main-000001"):
        Population(tmp_path)


def test_a_process_killed_while_it_adds_leaves_only_complete_snapshots(tmp_path: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from league.population.storage.population import Population
        population, step = Population(Path(sys.argv[1])), 0
        while True:
            write = lambda folder: (folder / "model.safetensors").write_bytes(bytes(300_000)) and None
            population.add("main", step, None, write)
            print(step, flush=True)
            step += 1
    """
    for pause in (0.0, 0.003, 0.011):
        root = tmp_path / str(pause)
        command = [sys.executable, "-c", textwrap.dedent(script), str(root)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            for _ in range(3):
                process.stdout.readline()
            time.sleep(pause)
            os.kill(process.pid, signal.SIGKILL)
        population = Population(root)
        assert len(population) >= 3
        for snapshot in population.all():
            population.verify(snapshot)
        population.discard_after(1)
        assert sorted(path.name for path in root.iterdir()) == ["main-000000", "main-000001"]


@pytest.mark.timed
def test_opening_five_hundred_snapshots_is_fast(tmp_path: Path) -> None:
    card = {"policy": "main", "parent": None, "sha256": {"model.safetensors": "0" * 64}}
    for step in range(512):
        folder = tmp_path / f"main-{step:06d}"
        folder.mkdir()
        (folder / "snapshot.json").write_text(json.dumps({**card, "id": folder.name, "step": step}))
    start = time.process_time()
    population = Population(tmp_path)
    assert time.process_time() - start < 0.5
    assert population.newest("main").step == 511
