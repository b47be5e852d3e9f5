"""A league of adapters, and one of whole models, trains and plays with vLLM as its engine."""

import pytest

from games.common.errors import UsageError
from games.registry import make_game
from league.config import load as settings
from league.population.evaluation.head_to_head import compare
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.storage.population import Population
from league.training.board.metrics_log import read_metrics
from league.training.loop.session import train

CONFIG = [
    "games={kuhn_poker={matches=48}}",
    "iterations=4",
    "snapshot_every=2",
    "in_flight=64",
    "threads=1",
    "model.vocabulary=300",
    "cold_start.steps=5",
    "engine.kind=vllm",
    "engine.vllm.max_model_len=512",
    "engine.vllm.max_lora_rank=8",
    "evaluation.matches=8",
]


def test_a_context_too_short_is_told_before_the_first_match(tmp_path):
    config = settings.load("pocket-returns", [*CONFIG, "policies.main.weights=lora", "engine.vllm.max_model_len=3"])
    with pytest.raises(UsageError, match=r"In trial matches of kuhn_poker, .* Set it to \d+ or more\."):
        train(config, tmp_path / "run")
    assert not Population(tmp_path / "run" / "population").all()


@pytest.mark.parametrize("kind", ["lora", "full"])
def test_a_league_trains_and_plays_from_its_folder(kind, tmp_path):
    config = settings.load("pocket-returns", [*CONFIG, f"policies.main.weights={kind}"])
    outcome = train(config, tmp_path / "run")
    assert (outcome.finished, outcome.iteration) == (True, 4)
    metrics = list(read_metrics(tmp_path / "run"))
    gaps = [one[key] for one in metrics for key in one if key.endswith("gap")]
    assert len(gaps) >= 4
    assert max(gaps) < 1e-4  # nats: the engine's log-probs are the learner's, whatever the weights were
    assert len({one["kuhn_poker/exploitability"] for one in metrics if "kuhn_poker/exploitability" in one}) == 3
    spec = make_game("kuhn_poker").spec
    with Engines() as engines:
        players = tuple(resolve(f"{tmp_path / 'run'}{which}", spec, engines) for which in ("", "@mixture"))
        found = compare(players, 40, 0)
    assert len(found.episodes) == 40


def test_two_base_models_are_each_served_by_an_engine_of_its_own(tmp_path):
    """Of two widths and vocabularies, adapters and whole, they meet in training and from the run's folder."""
    bound = 'roles.policy={"kuhn_poker/first"="a", "kuhn_poker/second"="b"}'
    own = ["policies.a.weights=lora", "policies.b.model={hidden_size=256, vocabulary=320}"]
    config = settings.load("pocket-returns", [*CONFIG, "iterations=2", bound, *own])
    train(config, tmp_path / "run")
    gaps = {}
    for line in read_metrics(tmp_path / "run"):
        gaps |= {key: max(value, gaps.get(key, 0.0)) for key, value in line.items() if key.endswith("gap")}
    assert {name for name in ("a", "b") if any(key.startswith(f"{name}/") for key in gaps)} == {"a", "b"}
    assert max(gaps.values()) < 1e-4  # nats: each engine's log-probs are its learner's
    spec = make_game("kuhn_poker").spec
    with Engines() as engines:
        player = resolve(str(tmp_path / "run"), spec, engines)
        assert len({id(engine) for engine in player.engines().values()}) == 2
        turns = [turn for one in compare((player, player), 20, 0).episodes for turn in one.turns]
    assert {turn.player.rpartition("@")[2] for turn in turns} == {"a-000002", "b-000002"}
