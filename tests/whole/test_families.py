"""The recipes of extending.md: an entry of each family, from outside, is chosen, has settings, and trains."""

import contextlib
import io
import json
import sys

import pytest
from support.pages import EXTENDING, blocks

from games.common import plugins
from games.common.errors import UsageError
from games.common.registry import Entry, family
from games.common.section import Section
from league.cli import main
from league.config.load import load, validate
from league.config.plugins import settings_of, used_plugins

RECIPES = {file: text for file, language, text in blocks(EXTENDING) if file.startswith("extra_")}
NAMES = sorted({file.partition(".")[0] for file in RECIPES})
TINY = [
    *("games={kuhn_poker={matches=16}}", "iterations=2", "snapshot_every=1", "threads=1", "model.hidden_size=16"),
    *("model.layers=1", "model.intermediate_size=16", "cold_start.steps=2", "cold_start.matches=4"),
    *("evaluation.matches=4", "board.time=0", "episodes_kept=64"),
]
# By recipe: the family, the name, a setting of its own with its value in the recipe.
EXPECTED = {
    "extra_start": ("starts", "stale", "starts.stale.half_life", 2.0),
    "extra_opponents": ("matchmaking", "fading", "matchmaking.settings.fading.half_life", 2.0),
    "extra_league_role": ("league_roles", "sparring", "exploiters.sparring.meets", 1),
    "extra_meta_solver": ("meta_solvers", "softmax", "meta_solvers.softmax.temperature", 0.2),
    "extra_branching": ("branching", "early", "branching.early.turns", 2),
    "extra_breeding": ("breeding", "champions", "descent.champions.count", 1),
    "extra_engine": ("engines", "second", "engine.second.loaded", 2),
}


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    """Begin in a folder with the recipes, without plugins, and forget those of the test."""
    for file, text in RECIPES.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LEAGUE_PLUGINS", ",".join(NAMES))
    monkeypatch.setattr(plugins, "_registered", {})
    yield
    for name in NAMES:
        sys.modules.pop(name, None)


def said(*words):
    """Return what a command prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(list(words)) == 0
    return out.getvalue()


def test_there_is_a_recipe_for_each_family():
    assert sorted(EXPECTED) == NAMES
    assert all(f"{name}.{kind}" in RECIPES for name in NAMES for kind in ("py", "toml"))


@pytest.mark.parametrize("recipe", NAMES)
def test_an_entry_from_outside_has_its_settings_checked_described_and_kept(recipe):
    group, name, key, value = EXPECTED[recipe]
    config = load(f"{recipe}.toml", TINY)
    assert config.plugins == (recipe,)
    assert used_plugins(config) == [recipe]
    assert getattr(settings_of(config, group, name), key.rpartition(".")[2]) == value
    assert validate(config.model_dump(exclude_none=True)) == config
    with pytest.raises(UsageError, match=rf"{key} = 0: .*greater than"):
        load(f"{recipe}.toml", [*TINY, f"{key}=0"])
    near = key[:-1]
    with pytest.raises(UsageError, match=rf"no key named '{near}'\. Did you mean {key}"):
        load(f"{recipe}.toml", [*TINY, f"{near}=1"])
    other = load("pocket-returns", TINY)
    assert other.plugins == ()
    assert f"'{name}'" not in str(
        other.model_dump(exclude_none=True, exclude={"async_learners"})
    )  # which has a key stale

    shown = {row["name"]: row for row in json.loads(said("settings", key, "--json"))}
    assert shown[key]["of"] == f"for {family(group).chosen_by(name)}"
    assert f"{family(group).noun}" in said("plugins")
    assert name in said("plugins")


@pytest.mark.parametrize("recipe", [name for name in NAMES if name != "extra_breeding"])
def test_an_entry_from_outside_trains(recipe, tmp_path, monkeypatch):
    group, name, _, _ = EXPECTED[recipe]
    asked = []
    load(f"{recipe}.toml", TINY)  # so that it is registered
    registered = plugins._registered[group, name]

    class Asked(type(registered.value)):
        """The entry, which counts how often it is asked."""

        def __getattribute__(self, attribute):
            if attribute == "make":
                asked.append(attribute)
            return super().__getattribute__(attribute)

    fields = registered.value.__dataclass_fields__
    counting = Asked(**{field: getattr(registered.value, field) for field in fields})
    monkeypatch.setitem(plugins._registered, (group, name), registered._replace(value=counting))
    settings = [word for setting in TINY for word in ("--set", setting)]
    said("train", f"{recipe}.toml", "--run-dir", "run", *settings)
    assert asked
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [0, 1, 2]
    assert f'plugins = [\n    "{recipe}",\n]' in (tmp_path / "run/config.toml").read_text()


def test_a_breeding_rule_from_outside_breeds(tmp_path):
    settings = [word for setting in TINY for word in ("--set", setting)]
    said("breed", "extra_breeding.toml", "--run-dir", "bred", "--plugin", "extra_breeding", *settings)
    history = json.loads((tmp_path / "bred/breed.json").read_text())["history"]
    best = history[0]["ranking"][0]
    assert [row["how"] for row in history[1]["members"]] == [f"from {best}"] * 2


def test_a_league_role_from_outside_plays_and_freezes_as_it_says(tmp_path):
    settings = [word for setting in [*TINY, "iterations=3"] for word in ("--set", setting)]
    said("train", "extra_league_role.toml", "--run-dir", "run", "--plugin", "extra_league_role", *settings)
    frozen = sorted(path.name for path in (tmp_path / "run/population").iterdir() if path.name.startswith("sam"))
    assert frozen == ["sam-000001", "sam-000002", "sam-000003"]  # every iteration
    text = "".join(path.read_text() for path in (tmp_path / "run/episodes").glob("*.jsonl"))
    assert '"sparring"' in text


def test_a_start_rule_from_outside_may_refuse_a_run():
    from league.training.starts.rules import START_RULES, StartRule

    def refuse(config):
        raise UsageError(f"not with seed {config.seed}")

    START_RULES.register("fussy", StartRule(lambda starts, moment: [1.0] * len(starts), check=refuse))
    with pytest.raises(UsageError, match="not with seed 7"):
        load("pocket-returns", ["starts.rule=fussy", "seed=7"])
    load("pocket-returns", ["seed=7"])


def test_a_name_that_the_table_has_cannot_be_an_entrys():
    for group, taken in (("starts", "floor"), ("league_roles", "share"), ("breeding", "members"), ("engines", "kind")):
        known = family(group)
        with pytest.raises(UsageError, match="but the league itself has one of that name"):
            known.register(taken, known.kind(print))


def test_an_own_entry_with_settings_gets_its_table_too(monkeypatch):
    """Ours and plugins' alike: what stands above the configuration adds to it."""
    from league.population.matchmaking.branching import BRANCHING_RULES

    class Settings(Section):
        depth: int = 3

    monkeypatch.setitem(BRANCHING_RULES, "ours", Entry(print, Settings, description="ours"))
    config = load("pocket-returns", ["branching.rule=ours", "branching.ours.depth=5", "branching.replies=100000"])
    assert settings_of(config, "branching", "ours") == Settings(depth=5)
    assert load("pocket-returns", ["branching.rule=ours", "branching.replies=100000"]).branching.ours.depth == 3
    assert config.plugins == ()
