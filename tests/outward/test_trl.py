"""TRL's own trainers read what `league export --format trl` writes, with a snapshot of the run as the model."""

import json
import math
import sys
from pathlib import Path

import pytest
from support.source import ROOT

from league.cli import main

trl = pytest.importorskip("trl", reason="TRL is not installed here: make test-outward has it")
datasets = pytest.importorskip("datasets", reason="datasets is not installed here: make test-outward has it")


@pytest.fixture(autouse=True)
def without_the_tests_folder(monkeypatch):
    """Let TRL, which looks for vLLM, not take the folder tests/vllm for it."""
    monkeypatch.setattr(sys, "path", [path for path in sys.path if Path(path) != ROOT / "tests"])


@pytest.fixture(scope="module")
def exported(free_run, tmp_path_factory):
    """Return the exported replies as a dataset, and the run's newest snapshot as a folder for other programs."""
    folder = tmp_path_factory.mktemp("trl")
    assert main(["export", str(free_run), "--format", "trl", "-o", str(folder / "replies.jsonl")]) == 0
    dataset = datasets.load_dataset(
        "json", data_files=str(folder / "replies.jsonl"), split="train", cache_dir=str(folder / "cache")
    )
    assert main(["push", str(free_run), "me/player", "--dry-run", "--out", str(folder / "model")]) == 0
    return dataset, folder / "model"


def settings(folder):
    """Return what both trainers are told: two steps on the CPU, and nothing reported or saved."""
    quiet = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "bf16": False}
    return {"output_dir": str(folder), "max_steps": 2, "logging_steps": 1, "learning_rate": 1e-3, "seed": 0, **quiet}


@pytest.mark.slow
def test_grpo_makes_two_steps_on_the_prompts(exported, tmp_path):
    dataset, model = exported
    seen = []

    def names_a_legal_action(completions, legal, **columns):
        assert {"game", "role", "advantage", "match_return"} <= set(columns)
        said = [completion[0]["content"] for completion in completions]
        seen.extend(said)
        return [
            float(any(f"[{action}]" in text for action in actions)) + len(text) / 100
            for text, actions in zip(said, legal, strict=True)
        ]

    trainer = trl.GRPOTrainer(
        model=str(model),
        reward_funcs=names_a_legal_action,
        train_dataset=dataset,
        args=trl.GRPOConfig(
            **settings(tmp_path), per_device_train_batch_size=4, num_generations=4, max_completion_length=6
        ),
    )
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    assert trainer.state.global_step == 2
    assert len(seen) == 8
    assert any(not weight.equal(before[name]) for name, weight in trainer.model.named_parameters())


@pytest.mark.slow
def test_sft_learns_from_the_prompts_and_completions(exported, tmp_path):
    """Its tokens of prompt and reply are those of the run: the chat template of the snapshot makes the same prompt."""
    dataset, model = exported
    trainer = trl.SFTTrainer(
        model=str(model),
        train_dataset=dataset,
        args=trl.SFTConfig(**settings(tmp_path), per_device_train_batch_size=4, max_length=None),
    )
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert trainer.state.global_step == len(losses) == 2
    assert all(math.isfinite(loss) and loss > 0.0 for loss in losses)
    tokens = trainer.train_dataset[0]["input_ids"]
    assert tokens[: len(dataset[0]["prompt_ids"])] == dataset[0]["prompt_ids"]


def test_the_file_has_the_columns_that_trl_reads(exported):
    dataset, _ = exported
    assert {"prompt", "completion", "legal", "logprobs", "advantage"} <= set(dataset.column_names)
    assert json.dumps(dataset[0]["completion"]).startswith('[{"role": "assistant"')
