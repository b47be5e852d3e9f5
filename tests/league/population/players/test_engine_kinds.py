"""An engine is its entry in ``ENGINES``: the league knows no kind by name."""

import ast
from collections import Counter
from pathlib import Path

import pytest
from safetensors.torch import load_file
from support.source import ROOT

from arena.lm.tokenization import ChatTokenizer
from arena.samplers.torch_lm import TorchLM
from games.common.errors import UsageError
from games.registry import make_game
from league.config.load import load
from league.population.evaluation.head_to_head import compare
from league.population.players import model_engine
from league.population.players.engines import Engines
from league.population.players.model_engine import ENGINES, EngineKind, engine_kind
from league.population.players.player import resolve
from league.population.storage.population import Population
from league.training.loop.session import train

TINY = [
    "games={kuhn_poker={matches=8}}",
    "iterations=2",
    "snapshot_every=1",
    "threads=1",
    "model.hidden_size=16",
    "model.layers=1",
    "model.intermediate_size=16",
    "model.vocabulary=300",
    "cold_start.steps=2",
    "evaluation.matches=4",
]


class Third(TorchLM):
    """An engine that counts what it answers, as a kind of its own would be."""

    answered = 0

    def sample(self, requests):
        self.answered += len(requests)
        return super().sample(requests)


class ThirdKind:
    """The entry of such an engine, and counts of the league's calls."""

    def __init__(self, *, separate_process):
        self.calls, self.made, self.sources = Counter(), [], []
        self.entry = EngineKind(
            self._make,
            streams=False,
            separate_process=separate_process,
            check=self._check,
            check_context=self._check_context,
        )

    def _make(self, config, source):
        if self.entry.separate_process:
            self.sources.append(source())
        self.made.append(Third(device=config.model.device, dtype=config.model.dtype))
        return self.made[-1]

    def _check(self, config, policies):
        self.calls["check"] += 1
        if config.seed == 13:
            raise UsageError("The third engine is superstitious.")

    def _check_context(self, config, longest):
        self.calls["check_context"] += 1
        assert list(longest) == ["kuhn_poker"]
        assert longest["kuhn_poker"] > 0


def weights(run):
    """Return every tensor of a run's snapshots."""
    return {
        f"{path.parent.name}/{name}": tensor
        for path in sorted((run / "population").glob("*/*.safetensors"))
        for name, tensor in load_file(path).items()
    }


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["full", "lora"])
@pytest.mark.parametrize("separate_process", [False, True], ids=["in this process", "in its own"])
def test_a_third_engine_trains_and_plays_by_its_entry_alone(kind, separate_process, tmp_path, monkeypatch):
    third = ThirdKind(separate_process=separate_process)
    monkeypatch.setitem(ENGINES, "third", third.entry)
    changes = [*TINY, f"policies.main.weights={kind}"]
    run = tmp_path / "third"
    assert train(load("pocket-returns", [*changes, "engine.kind=third"]), run).finished
    assert third.calls == {"check": 1, "check_context": 1}
    assert [engine.answered > 0 for engine in third.made] == [True]

    train(load("pocket-returns", changes), tmp_path / "torch")
    learned, expected = weights(run), weights(tmp_path / "torch")
    assert learned.keys() == expected.keys()
    assert all(learned[name].equal(tensor) for name, tensor in expected.items())

    with Engines() as engines:
        first, second = (resolve(name, make_game("kuhn_poker").spec, engines) for name in (f"{run}@mixture", str(run)))
        assert first.engine is second.engine is third.made[-1]
        assert len(compare((first, second), 8, 0).episodes) == 8
    assert len(third.made) == 2
    assert [isinstance(tokenizer, ChatTokenizer) for tokenizer, _ in third.sources] == [True] * 2 * separate_process
    base_folder = run / "base" if kind == "lora" else None
    assert [base for _, base in third.sources] == [base_folder] * 2 * separate_process


def test_what_the_entry_refuses_is_refused_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setitem(ENGINES, "third", ThirdKind(separate_process=False).entry)
    with pytest.raises(UsageError, match="superstitious"):
        train(load("pocket-returns", [*TINY, "engine.kind=third", "seed=13"]), tmp_path / "run")
    assert not Population(tmp_path / "run" / "population").all()


def test_an_unknown_kind_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(UsageError, match=r"no engine named 'vlm'\. Did you mean vllm\? Set engine\.kind"):
        train(load("pocket-returns", [*TINY, "engine.kind=vlm"]), tmp_path / "run")
    assert not (tmp_path / "run" / "config.toml").exists()


@pytest.mark.parametrize("key", ["max_loras", "max_lora_rank", "max_model_len", "kv_cache_gib", "sleep"])
def test_a_setting_of_one_engine_is_not_one_of_all(key):
    with pytest.raises(UsageError, match=rf"no key named 'engine\.{key}'\. Did you mean engine\.vllm\.{key}"):
        load("pocket-returns", [f"engine.{key}=1"])
    assert load("pocket-returns", ["engine.vllm.max_loras=8"]).engine.vllm.max_loras == 8


# Where an engine may be named: its entry, its settings, vLLM's own server, and what only it needs. A
# trainer is called torch too.
MAY_NAME = {
    Path(model_engine.__file__),
    *(ROOT / "league" / name for name in ("config/engine.py", "cli/playing/serve.py")),
    *(ROOT / "league" / name for name in ("config/learning.py", "training/learning/trainers.py")),
}
FILES = [
    path
    for package in ("games", "roles", "arena", "learners", "league")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path not in MAY_NAME and not path.name.startswith("vllm_")
]


def engine_names(tree):
    """Yield the lines that name a kind of engine, or ask a configuration for it to compare.

    Whoever looks for PyTorch, which the league learns with whatever plays, names no engine.
    """
    nodes = list(ast.walk(tree))
    pytorch = {
        id(node.args[0]) for node in nodes if isinstance(node, ast.Call) and ast.unparse(node) == "find_spec('torch')"
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and node.value in ENGINES and id(node) not in pytorch:
            yield node.lineno
        if isinstance(node, ast.Compare):
            yield from (part.lineno for part in ast.walk(node) if ast.unparse(part).endswith("engine.kind"))


def test_no_other_file_names_an_engine():
    assert list(engine_names(ast.parse("if config.engine.kind == other: pass\nkinds = ['vllm']"))) == [1, 2]
    assert list(engine_names(ast.parse("find_spec('torch')\nfind_spec('vllm')\nfind_spec('torch', 'torch')"))) == [
        2,
        3,
        3,
    ]
    lines = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in FILES
        for line in engine_names(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert lines == []
    assert engine_kind(load("pocket-returns", [])) is ENGINES["torch"]
