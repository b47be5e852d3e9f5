"""What plugins add to a run's configuration, and what is told of those that are missing, broken or in the way."""

import json
import pickle
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from pydantic import Field
from support.source import ROOT

from games.common import plugins
from games.common.errors import UsageError
from games.common.section import Section
from games.native.lookup import Lookup
from games.registry import game_names, make_game
from games.registry import register as register_game
from league.cli import main
from league.config import RunConfig
from league.config.learning import ObjectiveConfig
from league.config.load import load, to_toml, validate
from league.config.schedules import objective_at
from league.population.matchmaking import register as register_matchmaking
from league.population.players.scripted import register as register_scripted
from league.population.players.scripted import scripted_forms, scripted_player
from league.population.storage.run_dir import EXPLOITER_FILE
from learners.advantages import RULES
from learners.advantages import register as register_credit
from learners.advantages.reinforce import RULE as REINFORCE
from learners.advantages.rule import CreditRule
from learners.losses import register as register_loss
from learners.losses.objective import Surrogate
from learners.losses.policy_gradient import policy_gradient, ppo
from learners.losses.term import LossNeed, LossTerm

PLUGIN = """
import dataclasses

from games.common.section import Section
from learners.advantages import register
from learners.advantages.reinforce import RULE


class Settings(Section):
    shift: float = 0.5


register("shifted", dataclasses.replace(RULE, settings=Settings))
"""


class Settings(Section):
    """A rule's settings."""

    shift: float = Field(0.5, ge=0.0, description="what is added")


class Plays:
    """A scripted player without an argument."""


INSTALLED = plugins._installed  # as it is outside of these tests


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """Begin without plugins but those that the person is taken to have named, and forget those of the test."""
    monkeypatch.setenv("LEAGUE_PLUGINS", "shifting,no_such_plugin,json.no_such,broken,needs")
    monkeypatch.setattr(plugins, "_registered", {})
    monkeypatch.setattr(plugins, "_installed", dict)
    yield
    sys.modules.pop("shifting", None)


def installed(monkeypatch, *points):
    found = {(group, name): EntryPoint(name, value, f"league.{group}") for group, name, value in points}
    monkeypatch.setattr(plugins, "_installed", lambda: found)


def test_of_two_packages_of_one_name_the_first_on_the_path_counts_with_entry_points_or_without(monkeypatch, tmp_path):
    """As Python imports the first; a package of another name behind it counts too."""
    own = {"old": "[league.games]\nold_game = some:A\n", "none": "", "other": "[league.games]\nother_game = o:B\n"}
    for place, points in own.items():
        info = tmp_path / place / f"{'other' if place == 'other' else 'some'}_games-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {info.name.partition('-')[0].replace('_', '-')}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
    before = list(sys.path)
    monkeypatch.setattr(plugins, "_installed", INSTALLED)
    for order, expected in (
        (("old", "none", "other"), ["old_game", "other_game"]),
        (("none", "old", "other"), ["other_game"]),
        (("none", "old"), []),
    ):
        monkeypatch.setattr(sys, "path", [*(str(tmp_path / place) for place in order), *before])
        INSTALLED.cache_clear()
        assert plugins.names("games") == expected
    INSTALLED.cache_clear()


def shifted():
    return CreditRule(REINFORCE.make, Settings)


def test_a_rules_settings_are_checked_described_and_kept(monkeypatch):
    register_credit("shifted", shifted())
    config = load("pocket-returns", ["credit.rule=shifted", "credit.shifted.shift=2"])
    assert isinstance(config, RunConfig)
    assert config.credit.settings_of("shifted") == Settings(shift=2.0)
    assert "[credit.shifted]\nshift = 2.0\n" in to_toml(config)
    assert "[credit.shifted]\nshift = 0.5\n" in to_toml(load("pocket-returns", ["credit.rule=shifted"]))
    with pytest.raises(
        UsageError, match=r"credit\.shifted\.shift = -1: .*greater than or equal to 0\. \(what is added"
    ):
        load("pocket-returns", ["credit.shifted.shift=-1"])
    with pytest.raises(
        UsageError, match=r"no key named 'credit\.shifted\.shfit'\. Did you mean credit\.shifted\.shift"
    ):
        load("pocket-returns", ["credit.shifted.shfit=1"])


def test_the_settings_of_a_loss_are_checked_described_and_kept():
    """A set of needs is what anybody would write."""
    register_loss("sloped", LossTerm(policy_gradient(ppo), Settings, {LossNeed.ADVANTAGES}))
    config = load("pocket-returns", ["objective.name=sloped", "objective.sloped.shift=2"])
    assert objective_at(config, 1, "main").surrogate == Surrogate("sloped", {"shift": 2.0})
    assert objective_at(config, 1, "main").surrogate.table == Settings(shift=2.0)
    assert "[objective.sloped]\nshift = 2.0\n" in to_toml(config)
    assert "[objective.sloped]\nshift = 0.5\n" in to_toml(load("pocket-returns", ["policies.main.objective=sloped"]))
    assert "sloped" not in to_toml(load("pocket-returns", []))
    with pytest.raises(UsageError, match=r"objective\.sloped\.shift = -1: .*greater than or equal to 0\."):
        load("pocket-returns", ["objective.sloped.shift=-1"])
    with pytest.raises(UsageError, match=r"no loss named 'slopped'. Did you mean sloped"):
        load("pocket-returns", ["objective.name=slopped"])


@pytest.mark.parametrize("name", sorted(ObjectiveConfig.model_fields))
def test_no_loss_has_the_name_of_a_key_of_the_objective(name):
    with pytest.raises(UsageError, match=f"adds the loss '{name}', but the league itself has one of that name"):
        register_loss(name, LossTerm(policy_gradient(ppo)))


def test_a_run_that_uses_no_plugin_is_written_as_if_there_were_none():
    before = to_toml(load("pocket-returns"))
    register_credit("shifted", shifted())
    register_matchmaking("eldest", lambda pool: pool)
    assert to_toml(load("pocket-returns")) == before
    assert "plugins = []" in before


def test_a_matchmakers_weight_is_a_share(monkeypatch):
    def eldest(pool):
        """Meet the eldest alone.

        More.
        """

    register_matchmaking("eldest", eldest)
    config = load("pocket-returns", ["matchmaking.eldest=0.4", "matchmaking.self_play=0.6", "matchmaking.fictitious=0"])
    assert config.matchmaking.shares["eldest"] == 0.4
    assert type(config.matchmaking).model_fields["eldest"].description == "weight of: Meet the eldest alone"
    assert load("pocket-returns").matchmaking.shares["eldest"] == 0.0
    only = ["matchmaking.eldest=1", "matchmaking.self_play=0", "matchmaking.fictitious=0"]
    assert load("pocket-returns", only).matchmaking.shares["self_play"] == 0.0


def test_a_plugin_is_kept_with_the_runs_that_use_it(tmp_path, monkeypatch):
    (tmp_path / "shifting.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = load("pocket-returns", ['plugins=["shifting"]', "credit.rule=shifted"])
    assert config.plugins == ("shifting",)
    assert load("pocket-returns", ["credit.rule=shifted"]).plugins == (
        "shifting",
    )  # it is loaded: who uses it needs it
    assert load("pocket-returns").plugins == ()
    assert validate(config.model_dump(exclude_none=True)) == config


def test_a_configuration_brings_its_plugins_into_another_process(tmp_path, monkeypatch):
    (tmp_path / "shifting.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = load("pocket-returns", ['plugins=["shifting"]', "credit.rule=shifted", "credit.shifted.shift=3"])
    (tmp_path / "config.pickle").write_bytes(pickle.dumps(config))
    code = "import pickle; config = pickle.load(open('config.pickle', 'rb')); from learners.advantages import RULES; "
    code += "print(config.credit.settings_of('shifted'), RULES['shifted'].settings.__module__, config.plugins)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
    )
    assert done.stdout == "shift=3.0 shifting ('shifting',)\n", done.stderr
    assert pickle.loads(pickle.dumps(load("pocket-returns"))) == load("pocket-returns")  # noqa: S301  # ours


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_plugin", r"The plugin 'no_such_plugin' is missing: Python finds no module of that name here"),
        ("json.no_such", r"The plugin 'json.no_such' is missing"),
        ("no-such", r"no plugin named 'no-such'"),
        ("broken", r"The plugin broken cannot be loaded: ZeroDivisionError: "),
        ("needs", r"The plugin needs cannot be loaded: ModuleNotFoundError: No module named 'no_such_library'"),
    ],
)
def test_a_plugin_that_is_missing_or_broken_is_named(name, message, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "needs.py").write_text("import no_such_library")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match=message):
        load("pocket-returns", [f'plugins=["{name}"]'])


def test_a_tournament_remembers_the_plugins_of_its_players(tmp_path, monkeypatch, capsys):
    """Its standings, and what is left of it, are had without naming them again."""
    (tmp_path / "shifting.py").write_text(
        "from arena.samplers.scripted import Random\n"
        "from league.population.players.scripted import register as player\n"
        "player('plays', Random)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "tournament"
    words = ["tournament", "random", "plays", "--game", "kuhn_poker", "--matches", "4", "--run-dir", str(folder)]
    assert main([*words, "--plugin", "shifting"]) == 0
    assert json.loads((folder / "tournament.json").read_text())["plugins"] == ["shifting"]
    for again in (["standings", str(folder)], ["tournament", "--resume", "--run-dir", str(folder)]):
        sys.modules.pop("shifting")
        plugins._registered.clear()
        assert main(again) == 2
        assert "add --plugin shifting" in capsys.readouterr().err
        assert "shifting" not in sys.modules
        assert main([*again, "--plugin", "shifting"]) == 0
        assert "plays" in capsys.readouterr().out
        assert "shifting" in sys.modules
    (tmp_path / "shifting.py").unlink()
    sys.modules.pop("shifting")
    assert main(["standings", str(folder), "--plugin", "shifting"]) == 2
    assert "The plugin 'shifting' is missing" in capsys.readouterr().err


def test_a_best_response_remembers_the_plugins_that_it_was_trained_with(tmp_path, capsys):
    from arena.samplers.policy_net import FACTS_FILE

    assert FACTS_FILE == EXPLOITER_FILE
    (tmp_path / EXPLOITER_FILE).write_text('{"plugins": ["gone_games"]}')
    words = ["match", f"best_response:{tmp_path}", "random", "--game", "theirs"]
    assert main(words) == 2
    assert "add --plugin gone_games" in capsys.readouterr().err
    assert main([*words, "--plugin", "gone_games"]) == 2
    assert "The plugin 'gone_games' is missing" in capsys.readouterr().err


def test_plugins_are_a_list():
    with pytest.raises(UsageError, match="plugins = 'my_games': it should be a list such as"):
        load("pocket-returns", ["plugins=my_games"])


def test_a_name_belongs_to_one():
    register_game("mine", Lookup)
    register_game("mine", Lookup)  # the same may come by an entry point too
    with pytest.raises(UsageError, match="adds the game 'mine', but the plugin games"):
        register_game("mine", object)
    for register, name in ((register_game, "kuhn_poker"), (register_game, "lookup"), (register_credit, "rae")):
        with pytest.raises(UsageError, match="but the league itself has one of that name"):
            register(name, object)
    with pytest.raises(UsageError, match="but the league itself"):
        register_scripted("mcts", Plays)
    with pytest.raises(UsageError, match="but the league itself"):
        register_matchmaking("keep", Plays)
    with pytest.raises(UsageError, match="'a b' cannot be the name of a game"):
        register_game("a b", Lookup)


def test_a_player_is_written_with_what_its_constructor_takes():
    class Copies:
        def __init__(self, whom):
            self.whom = whom

    register_scripted("plays", Plays)
    register_scripted("copies", Copies)
    assert scripted_forms()[-2:] == ["plays", "copies:WHOM"]
    assert isinstance(scripted_player("plays"), Plays)
    assert scripted_player("copies:me").whom == "me"
    assert scripted_player("plays:me") is None


def test_entry_points_are_loaded_when_their_names_are_looked_for(monkeypatch):
    installed(
        monkeypatch,
        ("games", "found", "games.native.lookup:Lookup"),
        ("credit", "other", "learners.advantages.rae:RULE"),
        ("credit", "wrong", "json:dumps"),
        ("credit", "gone", "no_such_module:RULE"),
    )
    assert plugins.loaded("credit") == {}
    assert RULES["other"] is RULES["rae"]
    assert list(plugins.loaded("credit")) == ["other"]
    assert "found" in game_names()
    with pytest.raises(UsageError, match="it is written 'lookup'"):  # its spec has another name
        make_game("found")
    with pytest.raises(UsageError, match=r"'wrong' as an entry point, which is a function, not a credit rule"):
        RULES["wrong"]
    with pytest.raises(UsageError, match=r"credit rule gone\) cannot be loaded: ModuleNotFoundError"):
        RULES["gone"]
    with pytest.raises(UsageError, match=r"no credit rule named .othr.\. Did you mean other"):
        RULES["othr"]
    rows = {(row.group, row.name): bool(row.error) for row in plugins.listed()}
    assert rows == {
        ("games", "found"): False,
        ("credit", "other"): False,
        ("credit", "wrong"): True,
        ("credit", "gone"): True,
    }
