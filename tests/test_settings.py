"""Settings: what a person writes becomes a configuration, or a sentence that says what to change."""

import tomllib

import pytest

from games.errors import UsageError
from league import settings
from league.config import RunConfig

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
        settings.load(source, overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "keys", "value"),
    [
        ("iterations=3", ["iterations"], 3),
        ("learner.learning_rate = 1e-3", ["learner", "learning_rate"], 1e-3),
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
    assert settings.parse_override(text) == (keys, value)


def test_overrides_apply_in_order_and_add_games(small):
    config = settings.load(small, ["seed=1", "seed=7", "games.kuhn_poker(players=3).matches=9"])
    assert config.seed == 7
    assert config.games["kuhn_poker"].matches == 64
    assert config.games["kuhn_poker(players=3)"].matches == 9


@pytest.mark.parametrize("name", settings.preset_names())
def test_every_preset_loads_and_survives_writing(name):
    config = settings.load(name)
    assert settings.validate(tomllib.loads(settings.to_toml(config))) == config


def test_a_configuration_with_none_and_odd_names_survives_writing():
    config = RunConfig(
        games={"kuhn_poker(players=3)": {"entropy": None, "entropy_end": 1e-4}, "tic_tac_toe": {}},
        roles={"policy": {"tic_tac_toe/crosses": "other"}},
        evaluation={"anchors": []},
    )
    text = settings.to_toml(config)
    assert "None" not in text
    assert settings.validate(tomllib.loads(text)) == config


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("learner.lerning_rate=1", ["'learner.lerning_rate'", "learner.learning_rate"]),
        ("learning_rate=1", ["learner.learning_rate"]),
        ("games.kuhn_poker.machtes=3", ["games.kuhn_poker.matches"]),
        ("learner.inner_steps=0", ["learner.inner_steps = 0", "greater than or equal to 1", "optimiser steps"]),
        ("learner.inner_steps=many", ["learner.inner_steps = 'many'", "valid integer"]),
        ("roles.reply=fre", ["roles.reply = 'fre'", "'choice' or 'free'"]),
        ("learner=3", ["learner = 3", "learner.learning_rate"]),
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
    assert len(refusal(small, "learner.inner_steps=0", "nonsense.x=1").splitlines()) == 2


def test_wrong_sources_are_told(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("games = [")
    assert "not valid TOML" in refusal(str(broken))
    assert "no file" in refusal(str(tmp_path / "absent.toml"))
    assert "no preset named 'poket'" in refusal("poket")
