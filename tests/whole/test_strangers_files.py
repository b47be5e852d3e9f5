"""What a stranger's file names runs nothing that the person did not choose: games' names, and plugins."""

import math
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest
from support.source import ROOT

from arena.records import EndReason, Episode, MatchRequest, Turn
from arena.replays import save_episodes
from benchmarks.speed.long_run import make_run
from games.common import plugins
from games.common.errors import UsageError
from games.outside.as_played import as_played, is_outside
from games.outside.names import read_name
from games.registry import make_game
from games.spec import Utility
from league.cli import main
from league.cli.python.runs import open_run
from league.cli.python.training import train
from league.config.load import load
from league.lab.reports.differences import possible_values
from league.lab.reports.match_list import find_matches
from league.lab.reports.replay import to_replay
from league.lab.sweeps.plan import how_to_resume
from league.population.evaluation.welfare import common_interest
from league.population.players.remote import read_settings, remote_roles
from league.population.results.match_store import STORE_FILE

MARK = "from pathlib import Path\nPath(__file__).with_name('pwned').touch()\n"
PLUGIN = MARK + "from games.native.lookup import Lookup\nfrom games.registry import register\n"
ENVIRONMENT = """
import gymnasium
from pettingzoo.utils import AECEnv
from support.matches.aec_envs import Dice
from games.registry import register_environment


def auction(rounds=2):
    return Dice(rounds)


def env():
    return Dice()


def shell(command="id"):
    Path(__file__).with_name("pwned").touch()
    return Dice()


register_environment("strangers_module.auction", auction)
"""


@pytest.fixture(autouse=True)
def stranger(tmp_path, monkeypatch):
    """Stand in a folder with a module of a stranger's, with nothing chosen and nothing loaded."""
    monkeypatch.setattr(plugins, "_registered", {})
    monkeypatch.setattr(plugins, "_searched", [])
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    monkeypatch.setenv(plugins.ALLOWED, "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    here = tmp_path / "theirs"
    here.mkdir()
    monkeypatch.chdir(here)
    (here / "strangers_module.py").write_text(PLUGIN)
    yield here
    for name in [name for name in sys.modules if name.startswith("strangers_")]:
        del sys.modules[name]


@pytest.fixture
def run(stranger):
    """Return a run of a stranger's, whose configuration names the module beside it."""
    path = make_run(stranger / "run", iterations=4, snapshots=2, matches=8, seed=0)
    path = stranger / "run" if path is None else Path(path)
    config = path / "config.toml"
    config.write_text(config.read_text().replace("plugins = []", 'plugins = ["strangers_module"]'))
    assert "strangers_module" in config.read_text()
    return path


def trust(tmp_path, *lines):
    (tmp_path / "own" / "league").mkdir(parents=True)
    (tmp_path / "own" / "league" / "plugins").write_text("\n".join(lines))


def a_match(game, folder):
    """Write a file of one match."""
    turn = Turn(0, "first", "a", "a board", ("x",), "x", "x", 1.0, None)
    request = MatchRequest(0, game, 0, 0, ("a", "b"), (True, False))
    save_episodes(folder / "match.jsonl", [Episode(request, (turn,), (1.0, -1.0), EndReason.FINISHED)])
    return folder / "match.jsonl"


NAMES = [
    "pettingzoo:os.system(command=touch)",
    "pettingzoo:strangers_module",
    "pettingzoo:strangers_module.env",
    "pettingzoo:strangers_module.shell(command=id)",
    "pettingzoo:pettingzoo.../../strangers_module",
    "pettingzoo:pettingzoo.classic..strangers_module",
    "pettingzoo:pettingzoo",
    "pettingzoo:pettingzoo.utils.env",
    "pettingzoo:pettingzoo.utils.conversions.aec_to_parallel",
    "pettingzoo:pettingzooo.classic.env",
    "pettingzoo:games.pettingzoo(name=kuhn_poker)",
    "pettingzoo:builtins.exec.env",
    "pettingzoo:.strangers_module",
    "noisy(pettingzoo:strangers_module,percent=10)",
    "renamed(renamed(pettingzoo:strangers_module.shell))",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_games_name_runs_nothing(name, stranger, capsys):
    sys.path.append(str(stranger))  # as for `python -m`, at worst
    with pytest.raises(UsageError):
        make_game(name)
    for words in (["match", "random", "random", "--game", name, "--matches", "2"], ["games", "show", name]):
        assert main(words) == 2
        assert "Traceback" not in capsys.readouterr().err
    assert not (stranger / "pwned").exists()


@pytest.mark.parametrize(
    "value",
    [
        "id > x",
        "../secret",
        "/etc/passwd",
        "a.b",
        "nan",
        "inf",
        "1e999",
        "9" * 5000,
        "x" * 65,
        "__import__('os')",
        "$(id)",
    ],
)
def test_a_games_name_has_plain_values(value):
    with pytest.raises(UsageError, match="cannot be read"):
        read_name(f"pettingzoo:a.b(key={value})")


def test_a_games_name_has_few_values():
    many = ",".join(f"k{number}=1" for number in range(17))
    with pytest.raises(UsageError, match="at most 16"):
        read_name(f"pettingzoo:a.b({many})")


def test_a_plugin_that_was_named_has_the_environments_that_it_registers(stranger, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    (stranger / "strangers_module.py").write_text("from pathlib import Path\n" + ENVIRONMENT)
    plugin = ["--plugin", "strangers_module"]
    facts = "least=-2,most=20"
    for game in ("strangers_module.auction", "strangers_module", "strangers_module.env"):
        assert main(["games", "show", f"pettingzoo:{game}({facts})", *plugin]) == 0, capsys.readouterr().err
        assert "3 seats" in capsys.readouterr().out.replace("seats: 3", "3 seats")
    make_game(f"pettingzoo:strangers_module.auction({facts},rounds=3)")
    with pytest.raises(UsageError, match="register_environment"):
        make_game("pettingzoo:strangers_module.shell(command=id)")
    assert not (stranger / "pwned").exists()


@pytest.mark.parametrize(
    "name", ["pettingzoo:strangers_module", "renamed(pettingzoo:strangers_module)", "textarena:X-v0"]
)
def test_a_replay_makes_no_game_from_outside(name, stranger, monkeypatch, capsys):
    plugins.allow(["strangers_module"])  # even where it could

    def made(_):
        raise AssertionError("a game was made")

    monkeypatch.setattr("games.registry.OUTSIDE", {"pettingzoo": made, "textarena": made})
    path = a_match(name, stranger)
    replay = to_replay(find_matches(str(path)).matches[0])
    assert (replay.returns, replay.steps[0].sees) == ((1.0, -1.0), "a board")
    assert main(["replay", str(path)]) == 0
    assert "a board" in capsys.readouterr().out
    assert main(["replay", str(path), "--html", "-o", str(stranger / "page.html")]) == 0
    assert not (stranger / "pwned").exists()


def test_a_report_makes_no_game_from_outside(stranger, monkeypatch, capsys):
    """A run of such a game is reported by its name and its matches, and nothing is imported."""
    path = stranger / "run"
    make_run(path, iterations=4, snapshots=2, matches=8, seed=0)
    outside = "pettingzoo:strangers_module(least=-2,most=2)"
    for file in path.rglob("*"):
        if file.suffix in (".toml", ".json", ".jsonl") and "kuhn_poker" in file.read_text():
            file.write_text(file.read_text().replace("kuhn_poker", outside))
    config = path / "config.toml"
    config.write_text(config.read_text().replace(f"games.{outside}", f'games."{outside}"'))
    monkeypatch.setattr("games.registry.OUTSIDE", {})
    assert main(["report", str(path), "-o", str(stranger / "page.html")]) == 0, capsys.readouterr().err
    page = (stranger / "page.html").read_text()
    assert "there are only measurements" in page
    with closing(sqlite3.connect(path / STORE_FILE)) as store, store:
        for table in ("batches", "casts"):
            store.execute(f"UPDATE {table} SET game = ? WHERE game = 'kuhn_poker'", (outside,))
    monkeypatch.setattr("games.registry.OUTSIDE", dict.fromkeys(("pettingzoo", "textarena")))
    assert main(["report", str(path), "-o", str(stranger / "page.html")]) == 0, capsys.readouterr().err
    page = (stranger / "page.html").read_text()
    assert "there are only measurements" not in page
    assert "Elo in" in page
    assert not (stranger / "pwned").exists()


def test_the_facts_of_a_game_from_outside_are_those_of_its_name_and_its_matches():
    spec = as_played("noisy(textarena:Chess-v0(longest=9),percent=5)", [(1.0, -1.0), (-3.0, 3.0)])
    assert (spec.seats, spec.max_turns, spec.min_return, spec.max_return) == (2, 9, -3.0, 3.0)
    assert spec.utility is Utility.ZERO_SUM
    assert as_played("pettingzoo:a", [(1.0, 1.0)]).utility is Utility.IDENTICAL
    assert as_played("pettingzoo:a", [(1.0, 0.5)]).utility is Utility.GENERAL_SUM
    assert as_played("pettingzoo:a(motive=constant_sum)", [(1.0, 0.5)]).utility is Utility.CONSTANT_SUM
    assert not is_outside("renamed(kuhn_poker)")


def test_what_a_report_asks_of_a_game_from_outside_makes_none(monkeypatch):
    monkeypatch.setattr("games.registry.OUTSIDE", {"pettingzoo": pytest.fail, "textarena": pytest.fail})
    for metric in ("pettingzoo:strangers_module/return", "renamed(textarena:Chess-v0)/exploitability"):
        assert possible_values(metric) == (-math.inf, math.inf)
    spec = as_played("pettingzoo:strangers_module", [(1.0, 0.5)])
    assert not common_interest(spec)


def test_what_a_module_of_the_library_has_from_elsewhere_is_no_constructor(monkeypatch, stranger):
    module = ModuleType("pettingzoo.strangers_module")
    module.env = Path(stranger / "pwned").touch
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(UsageError, match="neither a module"):
        make_game("pettingzoo:pettingzoo.strangers_module")
    assert not (stranger / "pwned").exists()


def test_a_runs_plugins_are_not_loaded_unasked(run, stranger, capsys):
    commands = [
        ["standings", str(run)],
        ["exploitability", str(run), "--game", "kuhn_poker"],
        ["match", str(run), "random", "--game", "kuhn_poker"],
        ["match", "random", f"bayes:random,{run}@mixture", "--game", "kuhn_poker"],
        ["report", str(run), "-o", str(stranger / "page.html")],
        ["train", "--resume", "--run-dir", str(run)],
        ["train", str(run / "config.toml"), "--run-dir", str(stranger / "new")],
        ["sweep", str(run / "config.toml"), "--run-dir", str(stranger / "swept")],
    ]
    for words in commands:
        assert main(words) == 2, words
        assert "add --plugin strangers_module; or, to trust it always, add the line" in capsys.readouterr().err
    assert main(["replay", str(run), "--list"]) in (0, 2)  # which needs no plugin
    assert "strangers_module" not in capsys.readouterr().err
    for read in (lambda: open_run(run).config, lambda: load("pocket-returns", ['plugins=["strangers_module"]'])):
        with pytest.raises(UsageError, match="From Python, import it first"):
            read()
    assert not (stranger / "pwned").exists()


def test_other_files_name_no_plugin_either(run, stranger, capsys):
    """A tournament, a best response, and an openai: player's settings."""
    for name in ("tournament.json", "exploiter.json"):
        (stranger / name).write_text('{"plugins": ["strangers_module"]}')
    (stranger / "player.toml").write_text(f'model = "m"\nurl = "http://127.0.0.1:9/v1"\nrun = "{run}"\n')
    for words in (
        ["standings", "."],
        ["tournament", "--resume", "--run-dir", "."],
        ["match", "best_response:.", "random", "--game", "kuhn_poker"],
    ):
        assert main(words) == 2, words
        assert "add --plugin strangers_module" in capsys.readouterr().err
    with pytest.raises(UsageError, match="add --plugin strangers_module"):
        remote_roles(read_settings("openai:player.toml"), make_game("kuhn_poker").spec)
    assert not (stranger / "pwned").exists()


def test_no_module_is_loaded_from_a_runs_own_folder(run, stranger, monkeypatch, capsys, tmp_path):
    (stranger / "strangers_module.py").rename(run / "strangers_module.py")
    monkeypatch.chdir(run)
    for words in (["standings", "."], ["train", "--resume", "--run-dir", "."], ["standings", str(run)]):
        assert main([*words, "--plugin", "strangers_module"]) == 2
        assert "no code in this folder is run" in capsys.readouterr().err
        plugins._searched.clear()
        sys.path.remove(str(run))
    trust(tmp_path, "strangers_module")
    assert main(["standings", "."]) == 2
    assert not (run / "pwned").exists()


def test_who_names_a_plugin_or_trusts_it_has_it(run, stranger, monkeypatch, capsys, tmp_path):
    assert main(["standings", str(run), "--plugin", "strangers_module"]) == 0, capsys.readouterr().err
    assert (stranger / "pwned").exists()
    (stranger / "pwned").unlink()
    sys.modules.pop("strangers_module")
    sys.path.remove(str(stranger))
    plugins._searched.clear()
    trust(tmp_path, "# mine", "strangers_module  # of last year")
    assert main(["standings", str(run)]) == 2  # not from the current folder
    assert "is missing" in capsys.readouterr().err
    assert not (stranger / "pwned").exists()
    monkeypatch.syspath_prepend(str(stranger))
    assert main(["standings", str(run)]) == 0
    assert (stranger / "pwned").exists()


def test_a_plugin_that_the_callers_program_imported_counts_as_named(run, stranger, monkeypatch):
    monkeypatch.syspath_prepend(str(stranger))
    (stranger / "strangers_module.py").write_text(PLUGIN + "class Mine(Lookup): ...\nregister('mine', Mine)\n")
    import strangers_module  # noqa: F401

    assert open_run(run).config.plugins == ("strangers_module",)
    assert os.environ[plugins.ALLOWED] == "strangers_module"  # for its children


def test_what_a_run_of_a_named_plugin_needs_is_kept_and_told(stranger, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    (stranger / "strangers_module.py").write_text("from pathlib import Path\n" + ENVIRONMENT)
    plugins.allow(["strangers_module"])
    facts = "(least=-2,most=20)"
    for game in (f"pettingzoo:strangers_module.auction{facts}", f"pettingzoo:strangers_module{facts}"):
        for name in (game, f"renamed({game})"):
            assert load("pocket-returns", games=[name]).plugins == ("strangers_module",)
    assert load("pocket-returns").plugins == ()
    assert how_to_resume(Path("x")) == "league sweep --resume --run-dir x --plugin strangers_module"
    code = "from games.registry import make_game; print(make_game('pettingzoo:strangers_module.auction').spec.seats)"
    child = [sys.executable, "-c", code]  # which inherits what was chosen
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    assert subprocess.run(child, capture_output=True, text=True, check=True, env=environment).stdout == "3\n"


def test_a_module_that_is_there_but_no_plugin_is_not_chosen():
    with pytest.raises(UsageError, match="add --plugin json"):
        plugins.require(["json"])
    assert plugins.chosen_for("json.decoder") is None


def test_packages_of_the_current_folder_are_not_installed(stranger, monkeypatch):
    folder = stranger / "strangers_package-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: strangers-package\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[league.games]\nstrange = strangers_module:X\n")
    plugins.allow(["strangers_module"])
    plugins._installed.cache_clear()
    plugins.require(["strangers_module"])  # after which modules are looked for here
    plugins._installed.cache_clear()
    assert "strange" not in plugins.names("games")
    plugins._installed.cache_clear()


def test_as_a_command_a_strangers_folder_runs_nothing(run, stranger):
    """`python -m` looks for modules in the current folder first: not for those of libraries."""
    for library in ("pettingzoo", "torch", "pydantic"):
        (stranger / library).mkdir()
        (stranger / library / "__init__.py").write_text(MARK)
    for words in (
        ["match", "random", "random", "--game", "pettingzoo:pettingzoo.classic.nowhere", "--matches", "2"],
        ["standings", "run"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "league", *words],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
    assert list(stranger.rglob("pwned")) == []


def test_a_suite_and_an_anchor_name_no_code(stranger, capsys):
    (stranger / "suite.toml").write_text('games = ["pettingzoo:strangers_module"]\n')
    assert main(["eval", "random", "--suite", "suite.toml"]) == 2
    assert "Traceback" not in capsys.readouterr().err
    settings = ['games."pettingzoo:strangers_module".matches=8']
    with pytest.raises(UsageError, match="add --plugin strangers_module"):
        load("pocket-returns", settings)
    with pytest.raises(UsageError, match="no scripted player named"):
        train(load("pocket-returns", ['evaluation.anchors=["strangers_module:1"]']), stranger / "new")
    assert plugins.listed() == []
    assert not (stranger / "pwned").exists()
