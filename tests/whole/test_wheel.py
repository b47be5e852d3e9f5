"""The wheel, installed outside the repository in a new environment: it trains, and its pages are where it says."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from support.pages import PAGES, page_of
from support.source import PACKAGES, ROOT

SMALL = ["iterations=2", "snapshot_every=1", "games={kuhn_poker={matches=16}}", "cold_start.steps=2"]
KINDS = (".md", ".ipynb", ".png", ".svg")  # of what `league show docs` shows
POINTERS = re.compile(r"league show docs ([a-z_]+)")


def test_every_page_that_a_message_points_to_is_there():
    """By ``league show docs PAGE``: files of the repository are not where a wheel is installed."""
    files = [
        path for package in PACKAGES for kind in ("py", "toml") for path in sorted((ROOT / package).rglob(f"*.{kind}"))
    ]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    named = {name for text in texts.values() for name in POINTERS.findall(text)}
    assert {"credit", "engines", "extending", "league", "learner"} <= named
    assert named <= {page.stem for page in PAGES}
    said = re.compile(r"docs/[\w/]+\.md")
    pages = ROOT / "league" / "cli" / "showing" / "docs.py"
    assert [path for path, text in texts.items() if path != pages and said.search(_without_docstrings(text))] == []


def _without_docstrings(text):
    return re.sub(r'""".*?"""', "", text, flags=re.DOTALL)


def call(words, folder, **environment):
    done = subprocess.run(
        list(map(str, words)), cwd=folder, capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder outside the repository, and the ``league`` of an environment that has the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in (*PACKAGES, "docs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    call([*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, source], folder)
    [wheel] = folder.glob("llm_league-*.whl")
    shutil.rmtree(source)
    environment = folder / "env"
    call([sys.executable, "-m", "venv", "--without-pip", environment], folder)
    python = environment / "bin" / "python"
    site = call([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip()
    # What it needs is in the environment of the tests, behind its own folder: the wheel's packages are found first.
    (Path(site) / "needs.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})")
    call([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel], folder)
    return folder, wheel, environment / "bin" / "league"


@pytest.mark.slow
def test_a_wheel_outside_the_repository_trains_and_shows_its_pages(place):
    folder, wheel, league = place
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
    pages = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*") if path.suffix in KINDS]
    assert {f"league/{path.as_posix()}" for path in pages} <= names
    assert {"league/presets/pocket.toml", "roles/cards/kuhn_poker.toml", "league/py.typed"} <= names
    alone = {"PYTHONPATH": "", "OMP_NUM_THREADS": "1"}
    settings = [word for setting in SMALL for word in ("--set", setting)]
    said = call([league, "train", "pocket", *settings, "--run-dir", "runs/pocket"], folder, **alone)
    assert (folder / "runs/pocket/population/main-000002").is_dir(), said
    told = call([league, "standings", "runs/pocket"], folder, **alone)
    [page] = POINTERS.findall(told)
    assert call([league, "docs", page], folder, **alone) == page_of(page).read_text(encoding="utf-8")
    listed = call([league, "docs"], folder, **alone)
    assert str(folder / "env") in listed
    assert "credit " in listed


@pytest.mark.slow
def test_a_folder_of_ones_own_that_hides_a_package_is_told_in_a_sentence(place, tmp_path):
    """Where a program lies, Python finds ``games/`` before the installed one; an editable install would hide that."""
    _, _, league = place
    python = league.parent / "python"
    alone = {"PYTHONPATH": ""}
    (tmp_path / "program.py").write_text("import league; print(league.make_game('kuhn_poker').spec.seats)")
    assert call([python, "program.py"], tmp_path, **alone) == "2\n"
    (tmp_path / "roles").mkdir()  # without __init__.py it hides nothing
    assert call([python, "program.py"], tmp_path, **alone) == "2\n"
    hiding = tmp_path / "games"
    hiding.mkdir()
    (hiding / "__init__.py").write_text("")
    environment = os.environ | alone
    done = subprocess.run([python, "program.py"], cwd=tmp_path, capture_output=True, text=True, env=environment)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        f"ImportError: {hiding} hides the league's own package 'games', which is in {league.parents[1]}"
    )
    assert last.endswith("Rename yours, or move your program elsewhere.")
    shown = call([league, "doctor", "--json"], tmp_path, **alone)
    [check] = [check for check in json.loads(shown)["checks"] if check["name"] == "games"]
    assert check["state"] == "wrong"
    assert check["found"].startswith(f"{hiding} has the name of one of league's packages")
    assert call([python, "-m", "league", "docs", "credit"], tmp_path, **alone)  # which leaves this folder out
