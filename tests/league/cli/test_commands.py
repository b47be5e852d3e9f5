"""A command is a file: in the list under its name, light to import, ours or an installed package's."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from support.pages import EXTENDING, blocks
from support.source import ROOT

from league.cli import dispatch, main
from league.cli.commands import BEHIND, COMMANDS, GROUPS, LAB, SHOW, find, written
from league.cli.dispatch import parse

LENGTHS = next(text for file, _, text in blocks(EXTENDING) if file == "race_games/lengths.py")
MATCH = ["match", "random", "always:bet", "--game", "kuhn_poker", "--matches", "4", "--save", "matches.jsonl"]
REPORT = """
\"\"\"Count words.\"\"\"
from league.cli.parser import add_json_option

def add_arguments(parser):
    parser.add_argument("words", nargs="+")
    add_json_option(parser)

def run(arguments):
    return arguments.words

def to_json(report):
    return {"words": len(report)}

def print_report(report, console):
    console.print(f"{len(report)} words: {' '.join(report)}")
"""


@pytest.fixture
def place(tmp_path):
    """Return a folder, and the environment of processes that find a package with commands installed."""
    site = tmp_path / "site"
    info = site / "some_commands-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-commands\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[league.commands]\nlengths = some_lengths\nwords = some_report\nbroken = some_broken\nplain = os.path\n"
        "games = some_broken\n"
    )
    (site / "some_lengths.py").write_text(LENGTHS)
    (site / "some_report.py").write_text(REPORT)
    (site / "some_broken.py").write_text("raise RuntimeError('no')")
    folder = tmp_path / "here"
    folder.mkdir()
    return folder, os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])}


def league(place, *words, status=0, **changes):
    folder, environment = place
    command = [sys.executable, "-m", "league", *words]
    done = subprocess.run(
        command, cwd=folder, env=environment | changes, capture_output=True, text=True, check=False, encoding="latin-1"
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if status == 0 else done.stderr


def test_every_file_of_a_group_is_a_command_of_the_list():
    """But for what two commands share, and one's second report, which no command's name leads to."""
    assert list(COMMANDS) == [name for names in GROUPS.values() for name in names]  # none has two
    for group, names in GROUPS.items():
        files = {path.stem for path in (ROOT / "league" / "cli" / group).glob("*.py")}
        modules = {find(name).__name__.rpartition(".")[2] for name in names}
        assert files - modules <= {"__init__", "standings_report", "words_report"}
        assert all(find(name).__name__.startswith(f"league.cli.{group}.") for name in names)


def test_no_command_is_slow_to_import():
    """Its own help needs none of what it measures, plays or trains with."""
    code = "import sys; from league.cli.dispatch import _parsers; _parsers()\n"
    code += "print(*{'torch', 'numpy', 'scipy', 'pydantic', 'rich', 'transformers', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


def test_the_help_is_one_screen_and_every_command_stands_on_it_or_behind_a_word_of_it(place):
    """A command behind ``lab`` or ``show`` runs with and without it, and says its place without."""
    for words in ([], ["--help"]):
        shown = league(place, *words).splitlines()
        assert len(shown) <= 40
        assert max(map(len, shown)) <= 80
    on_it = {line.split()[0] for line in shown if line.startswith("  ")}
    assert on_it == {written(name).split()[0] for name in COMMANDS}
    for word, (_, names) in BEHIND.items():
        behind = league(place, word)
        assert behind == league(place, word, "--help")
        assert all(re.search(rf"^    {name}\b", behind, re.M) for name in names)
        assert "There is no command named 'nothing'" in league(place, word, "nothing", status=2)
    assert league(place, "show", "docs") == league(place, "docs")
    folder, environment = place
    words = [sys.executable, "-m", "league", "docs", "league"]
    old = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    assert old.stderr == "league docs is `league show docs` now.\n"
    assert "See: league lab regret --help" in league(place, "regret", status=2)


@pytest.mark.parametrize("name", sorted(LAB | SHOW))
def test_an_old_word_means_the_same_command_and_says_where_it_is_now(name, monkeypatch, capsys):
    for example in find(name).EXAMPLES:
        words = shlex.split(re.split(" >+ ", example)[0])
        assert parse([name, *words]) == parse([*written(name).split(), *words])
    monkeypatch.setattr(dispatch, "_flushed", lambda *_: 0)
    assert main([name]) == 0
    assert capsys.readouterr().err == f"league {name} is `league {written(name)}` now.\n"
    assert main(written(name).split()) == 0
    assert capsys.readouterr().err == ""


def test_help_imports_the_files_of_no_command():
    code = "import sys; from league.cli import main; main([])\n"
    code += "print([name for name in sys.modules if name.startswith('league.cli.') and name.count('.') > 2])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_installed_package_brings_a_command(place):
    league(place, *MATCH)
    assert league(place, "lengths", "matches.jsonl").startswith("4 matches of 2.")
    shown = league(place, "lengths", "--help")
    assert "\nTell how many turns the matches of a file have.\n" in shown
    assert shown.endswith("examples:\n  league lengths matches.jsonl\n")
    assert "Did you mean --plugin?" in league(place, "lengths", "x", "--plugn", status=2)
    assert league(place, "words", "a", "b") == "2 words: a b\n"
    assert league(place, "words", "a", "b", "--json") == '{\n  "words": 2\n}\n'


def test_a_plugins_command_is_loaded_only_when_it_is_given(place):
    """Not for help, nor where ours has the name."""
    assert "lengths" not in league(place, "--help")
    assert "kuhn_poker" in league(place, "games")
    assert "Did you mean lengths" in league(place, "lenghts", "x", status=2)
    assert "some-commands (command broken) cannot be loaded: RuntimeError: no" in league(place, "broken", status=2)
    assert "has the command 'plain' as an entry point, which is a module, not a command" in league(
        place, "plain", status=2
    )
    listed = league(place, "plugins")
    assert [line.split()[:3] for line in listed.splitlines() if "lengths" in line] == [
        ["some-commands", "command", "lengths"]
    ]


def test_what_a_terminal_cannot_show_is_written_in_plain_letters(place):
    """A minus sign is no letter of Latin-1; what was played is not lost for it."""
    words = ["match", "always:pass", "always:bet", "--game", "kuhn_poker", "--matches", "40"]
    shown = league(place, *words, PYTHONIOENCODING="utf-8").encode("latin-1").decode()
    assert "\u2212" in shown
    plain = league(place, *words, PYTHONIOENCODING="latin-1")
    assert plain == shown.replace("\u2212", "-").replace("\u2013", "-")
