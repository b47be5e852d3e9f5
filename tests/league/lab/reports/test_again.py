"""The command of a report gives the configuration again, or there is none."""

import shlex

import pytest

from league.cli.dispatch import parse
from league.config.load import load, preset_names, validate
from league.lab.reports.again import command, differing


def configuration(words):
    """Return the configuration that `league train` would train with."""
    arguments = parse(shlex.split(words)[1:])
    seed = [] if arguments.seed is None else [f"seed={arguments.seed}"]
    return load(arguments.config, [*seed, *arguments.set])


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_is_made_again_by_its_name(preset):
    assert configuration(command(load(preset))) == load(preset)


@pytest.mark.parametrize(
    "settings",
    [
        ["seed=3", "iterations=7"],
        ['roles.policy."kuhn_poker/first"="opener"', "policies.opener.rank=4", 'policies.opener.weights="lora"'],
        ['evaluation.anchors=["random", "always:pass"]'],
        ["games.goofspiel(num_cards=4).matches=8"],
        ['roles.cards="a folder; rm -rf"'],
    ],
)
def test_changed_settings_are_in_the_command(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = load("pocket-returns").model_dump()
    if "roles.cards" in settings[0]:
        config = validate({**base, "roles": {**base["roles"], "cards": "a folder; rm -rf"}})
        assert command(config) is None or configuration(command(config)) == config
    else:
        config = load("pocket-returns", settings)
        assert configuration(command(config)) == config


def test_a_run_without_a_game_of_every_preset_is_made_from_its_own_file():
    assert command(validate({"games": {"leduc_poker": {"matches": 8}}})) is None


def test_differing_settings_are_named_with_both_values():
    configs = [load("pocket-returns"), load("pocket-returns", ["seed=2", "games.leduc_poker.matches=5"])]
    rows = differing(configs)
    assert rows["seed"] == [0, 2]
    assert rows["games.leduc_poker.matches"] == [None, 5]
    assert "iterations" not in rows
