"""A preset for Qwen3 as it stands, but for the GPU and the size: vLLM plays a checkpoint that thinks, in bfloat16."""

import pytest
from support.models.checkpoint import SMALL, save_checkpoint

from league.config import load as settings
from league.training.board.metrics_log import read_metrics
from league.training.loop.session import train


def test_it_trains_from_end_to_end(tmp_path):
    save_checkpoint(tmp_path / "checkpoint")
    config = settings.load("qwen3-0.6b", [f"model.source={tmp_path / 'checkpoint'}", *SMALL])
    assert config.engine.kind == "vllm"
    assert train(config, tmp_path / "run").finished
    played = [one for one in read_metrics(tmp_path / "run") if "illegal_rate" in one]
    assert len(played) == 2
    assert all(one["illegal_rate"] < 0.25 for one in played)
    assert all(0.0 < one["gap"] < 1.0 for one in played)  # nats a reply of some 20 tokens: two ways to round in 16 bits
    assert played[-1]["main/importance"] == pytest.approx(1.0, abs=0.1)
    assert (tmp_path / "run" / "population" / "main-000002" / "adapter_model.safetensors").is_file()
