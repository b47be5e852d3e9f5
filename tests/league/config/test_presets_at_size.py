"""The presets for models of billions of parameters, on a small checkpoint of their kind, without a GPU."""

import re

import pytest
from support.models.checkpoint import SMALL, save_checkpoint

from arena.cluster.interface import Resources
from games.common.errors import UsageError
from league.config.load import load
from league.training.backends.placement import check_cluster
from league.training.board.metrics_log import read_metrics
from league.training.loop.session import train
from league.training.sizing.facts import ASSUMED_RATES, parse_gpus, shape_of
from league.training.sizing.plan import plan, usual_tokens


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    save_checkpoint(folder)
    return folder


def small_config(preset, checkpoint, *overrides):
    return load(preset, [f"model.source={checkpoint}", *SMALL, *overrides])


@pytest.mark.thorough
def test_a_preset_trains_adapters_of_a_checkpoint_that_thinks(checkpoint, tmp_path):
    """In bfloat16, with checkpointing, as the preset has it; torch plays instead of vLLM."""
    outcome = train(small_config("qwen3-0.6b", checkpoint, "engine.kind=torch"), tmp_path / "run")
    assert outcome.finished
    metrics = list(read_metrics(tmp_path / "run"))
    played = [line for line in metrics if "illegal_rate" in line]
    assert all(line["illegal_rate"] < 0.25 for line in played)  # reasoning is skipped, and answers are parsed
    assert all(0.0 < line["gap"] < 0.5 for line in played)  # nats a reply: bfloat16 rounds, and no more than that
    assert played[-1]["main/importance"] == pytest.approx(1.0, abs=0.05)
    snapshot = tmp_path / "run" / "population" / "main-000002"
    assert (snapshot / "adapter_model.safetensors").is_file()


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        ("qwen3-0.6b", "model.device = 'cuda', but PyTorch finds no GPU here. Set model.device"),
        ("qwen3-4b", "or play on a cluster (--cluster), where a learner may have several"),
    ],
)
def test_missing_resources_are_refused_before_anything_is_loaded(preset, message, tmp_path):
    with pytest.raises(UsageError, match=re.escape(message)):
        train(load(preset, []), tmp_path / "run")
    assert not (tmp_path / "run" / "config.toml").exists()  # so that the corrected command may use the same folder


def test_missing_gpus_of_a_cluster_are_refused():
    config = load("qwen3-4b", [])
    with pytest.raises(UsageError, match=r"has 4 GPUs, but \[cluster\] asks for 8: 4 engines of 1 and 4 learners of 1"):
        check_cluster(config, 1, [Resources(64.0, 4.0)])
    check_cluster(config, 1, [Resources(64.0, 8.0)])


NEGOTIATION = '"simple_negotiation(goods=2,stock=1,most=3,turns=3,form=1)"'
DRY = [
    'model={source="pocket", hidden_size=32, layers=2, intermediate_size=64, vocabulary=420, device="cpu"}',
    "engine.kind=torch",
    "optimizer.processes=1",
    "optimizer.sharded=false",
    "optimizer.micro_batch_tokens=2048",
    "iterations=1",
    "snapshot_every=1",
    "threads=1",
    "roles.max_reply_tokens=8",
    "evaluation.matches=2",
    "cold_start={matches=8, steps=4}",
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("preset", "matches", "policies"),
    [
        (
            "spiral-4b",
            [f"games.{game}.matches=4" for game in ("kuhn_poker", "tic_tac_toe", NEGOTIATION)],
            {"main"},
        ),
        ("mgrpo-4b", ['games={"lookup_chain(people=6,relations=2)"={matches=16}}'], {"main", "sub"}),
    ],
)
def test_a_papers_preset_fits_eight_cards_and_runs_dry(preset, matches, policies, tmp_path):
    """A model of Qwen3's shape with two layers plays here, and learns in another process for each learner."""
    config = load(preset, ["threads=1"])
    made = plan(config, shape_of(config), parse_gpus("8xH100"), ASSUMED_RATES, usual_tokens(config))
    assert made.fits, made.misfits
    check_cluster(config, len(policies), [Resources(64.0, 8.0)])
    assert train(load(preset, [*DRY, *matches]), tmp_path / "run").finished
    learned = {path.name.rpartition("-")[0] for path in (tmp_path / "run" / "population").glob("*-000001")}
    assert learned == policies


def test_the_papers_presets_hold_what_the_papers_state():
    spiral, mgrpo = load("spiral-4b", ["threads=1"]), load("mgrpo-4b", ["threads=1"])
    assert sum(game.matches for game in spiral.games.values()) == 128
    assert (spiral.iterations, spiral.optimizer.learning_rate, spiral.optimizer.inner_steps) == (400, 1e-6, 2)
    assert (spiral.credit.rule, spiral.policies["main"].weights, spiral.matchmaking.self_play) == ("rae", "full", 1.0)
    assert (mgrpo.credit.rule, mgrpo.matchmaking.group_size) == ("m_grpo", 8)
    assert set(mgrpo.async_learners.processes) == {"main", "sub"}
