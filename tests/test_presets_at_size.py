"""The presets for models of billions of parameters, on a small checkpoint of their kind, without a GPU."""

import re

import pytest
from small_checkpoint import SMALL, save_checkpoint

from arena.cluster import Room
from games.errors import UsageError
from league import settings
from league.board import read_metrics
from league.checks_cluster import check_cluster
from league.session import train


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    save_checkpoint(folder)
    return folder


def small(preset, checkpoint, *more):
    return settings.load(preset, [f"model.source={checkpoint}", *SMALL, *more])


def test_a_preset_trains_adapters_of_a_checkpoint_that_thinks(checkpoint, tmp_path):
    """In bfloat16, with checkpointing, as the preset has it; torch plays instead of vLLM."""
    outcome = train(small("qwen3-0.6b", checkpoint, "engine.kind=torch"), tmp_path / "run")
    assert outcome.finished
    metrics = list(read_metrics(tmp_path / "run"))
    played = [one for one in metrics if "illegal_rate" in one]
    assert all(one["illegal_rate"] < 0.25 for one in played)  # thoughts are read past, and answers found
    assert all(0.0 < one["gap"] < 0.5 for one in played)  # nats a reply: bfloat16 rounds, and no more than that
    assert played[-1]["main/importance"] == pytest.approx(1.0, abs=0.05)
    snapshot = tmp_path / "run" / "population" / "main-000002"
    assert (snapshot / "adapter_model.safetensors").is_file()


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        ("qwen3-0.6b", "model.device = 'cuda', but PyTorch finds no GPU here. Set model.device"),
        ("qwen3-4b", "or play on a cluster (--cluster), where a learner may have several"),
    ],
)
def test_what_a_preset_lacks_is_told_before_anything_is_loaded(preset, words, tmp_path):
    with pytest.raises(UsageError, match=re.escape(words)):
        train(settings.load(preset, []), tmp_path / "run")
    assert not (tmp_path / "run" / "config.toml").exists()  # so that the corrected command may have the same folder


def test_so_are_the_gpus_that_a_cluster_lacks():
    config = settings.load("qwen3-4b", [])
    with pytest.raises(UsageError, match=r"has 4 GPUs, but \[cluster\] asks for 8: 4 engines of 1 and 4 learners of 1"):
        check_cluster(config, 1, [Room(64.0, 4.0)])
    check_cluster(config, 1, [Room(64.0, 8.0)])
