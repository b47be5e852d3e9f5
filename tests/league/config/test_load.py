"""TOML and overrides become a configuration, or an error that says what to change."""

import tomllib

import pytest

from games.common.errors import UsageError
from league.config import CONFIG_FILE, RunConfig
from league.config.load import (
    load,
    load_run_config,
    parse_override,
    preset_names,
    to_toml,
    validate,
    write_run_config,
)
from learners.advantages import RULES

SMALL = """
iterations = 5

[games.kuhn_poker]
matches = 64
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)


def refusal(source, *overrides):
    with pytest.raises(UsageError) as caught:
        load(source, overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "keys", "value"),
    [
        ("iterations=3", ["iterations"], 3),
        ("optimizer.learning_rate = 1e-3", ["optimizer", "learning_rate"], 1e-3),
        ("model.source=Qwen/Qwen3-0.6B", ["model", "source"], "Qwen/Qwen3-0.6B"),
        ('model.source="pocket"', ["model", "source"], "pocket"),
        ("credit.scale_returns=false", ["credit", "scale_returns"], False),
        ('evaluation.anchors=["random", "mcts:10"]', ["evaluation", "anchors"], ["random", "mcts:10"]),
        ("games.kuhn_poker(players=3).matches=8", ["games", "kuhn_poker(players=3)", "matches"], 8),
        ('games."kuhn_poker(players=3)".matches=8', ["games", "kuhn_poker(players=3)", "matches"], 8),
        ("games.g(x=0.5,y=z).every=2", ["games", "g(x=0.5,y=z)", "every"], 2),
        ("roles.policy.kuhn_poker/first=a=b", ["roles", "policy", "kuhn_poker/first"], "a=b"),
        ("model.source=1\nseed = 2", ["model", "source"], "1\nseed = 2"),  # one override cannot set a second key
    ],
)
def test_an_override_is_read_as_toml_and_words_need_no_quotes(text, keys, value):
    assert parse_override(text) == (keys, value)


def test_overrides_apply_in_order_and_add_games(small):
    config = load(small, ["seed=1", "seed=7", "games.kuhn_poker(players=3).matches=9"])
    assert config.seed == 7
    assert config.games["kuhn_poker"].matches == 64
    assert config.games["kuhn_poker(players=3)"].matches == 9


def test_a_rules_settings_are_a_table_of_its_name(small):
    """Every setting of every rule is set, read, and written back; other rules' tables stay as they are."""
    config = load(small, ["credit.rae.decay=0.5", "credit.m_grpo.align=resample", "credit.gigpo.step_spread=true"])
    changed = {name: config.credit.settings_of(name) for name in RULES}
    for name, rule in RULES.items():
        assert isinstance(changed[name], rule.settings)
    assert (changed["rae"].decay, changed["m_grpo"].align, changed["gigpo"].step_spread) == (0.5, "resample", True)
    assert {name for name in RULES if changed[name] != RULES[name].settings()} == {"rae", "m_grpo", "gigpo"}
    assert validate(tomllib.loads(to_toml(config))) == config


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_and_survives_writing(name):
    config = load(name)
    assert validate(tomllib.loads(to_toml(config))) == config


def test_a_configuration_with_none_and_odd_names_survives_writing():
    config = RunConfig(
        games={"kuhn_poker(players=3)": {"entropy": None, "entropy_end": 1e-4}, "tic_tac_toe": {}},
        roles={"policy": {"tic_tac_toe/crosses": "other"}},
        evaluation={"anchors": []},
    )
    text = to_toml(config)
    assert "None" not in text
    assert validate(tomllib.loads(text)) == config


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("learner.learning_rate=1", ["'learner.learning_rate'", "optimizer.learning_rate"]),
        ("optimizer.lerning_rate=1", ["'optimizer.lerning_rate'", "optimizer.learning_rate"]),
        ("learning_rate=1", ["optimizer.learning_rate"]),
        ("games.kuhn_poker.machtes=3", ["games.kuhn_poker.matches"]),
        ("optimizer.inner_steps=0", ["optimizer.inner_steps = 0", "greater than or equal to 1", "optimiser steps"]),
        ("optimizer.inner_steps=many", ["optimizer.inner_steps = 'many'", "valid integer"]),
        ("roles.reply=fre", ["roles.reply = 'fre'", "'choice' or 'free'"]),
        ("optimizer=3", ["optimizer = 3", "optimizer.learning_rate"]),
        ("games={}", ["games", "at least one"]),
        ("seed", ["'='"]),
        ("seed.x=1", ["seed is a single value"]),
        ("games.kuhn_pokr.matches=1", ["'kuhn_pokr'", "kuhn_poker"]),
        ("roles.policy.kuhn_poker/frist=x", ["kuhn_poker/frist", "kuhn_poker/first"]),
        ("model.heads=5", ["model.hidden_size", "is not a multiple of model.heads = 5"]),
    ],
)
def test_a_mistake_names_the_key_what_was_given_and_what_is_expected(small, override, parts):
    message = refusal(small, "seed=1", override)  # seed has a value, which `seed.x` would need to be a table
    for part in parts:
        assert part in message


def test_a_bad_combination_says_why(small):
    assert "masks sampling" in refusal(small, "roles.reply=free", "roles.on_illegal=mask")
    assert "no match can be drawn" in refusal(small, "matchmaking.self_play=0", "matchmaking.fictitious=0")


def test_all_mistakes_are_told_at_once(small):
    assert len(refusal(small, "optimizer.inner_steps=0", "nonsense.x=1").splitlines()) == 2


def test_wrong_sources_are_told(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("games = [")
    assert "not valid TOML" in refusal(str(broken))
    assert "no file" in refusal(str(tmp_path / "absent.toml"))
    assert "no preset named 'poket'" in refusal("poket")


@pytest.mark.parametrize(
    ("first", "said"), [("", "layout 1"), ("layout = 4\n", "layout 4"), ("layout = 'x'\n", "layout x")]
)
def test_a_run_of_another_layout_is_refused_by_it_and_not_misread(small, tmp_path, first, said):
    write_run_config(tmp_path, load(small))
    path = tmp_path / CONFIG_FILE
    assert load_run_config(tmp_path) == load(small)
    path.write_text(first + path.read_text().partition("\n")[2])
    with pytest.raises(UsageError, match=f"{said}, and this league reads layout 3"):
        load_run_config(tmp_path)
