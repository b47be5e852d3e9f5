"""Loaded weights lie where computed ones would, in memory of their own, and so does what comes from NumPy."""

import os

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.models.adapters import SHAPE, scrambled
from support.models.pocket import pocket

from arena.lm.language_model import LanguageModel
from arena.lm.lora import Adapters, load_model
from arena.lm.tensors import ALIGNMENT, aligned, is_aligned
from arena.samplers.policy_net import ExploiterFacts, PolicyNet, load_facts, load_network, save_exploiter
from games.registry import make_game
from league.population.players.engines import Engines
from league.population.players.player import resolve
from learners.rllib.best_response import BestResponse, BestResponseConfig
from learners.update.policy import Policy

KUHN = make_game("kuhn_poker").spec


def placed(tensor, offset):
    """Return a copy that begins ``offset`` bytes behind a multiple of ALIGNMENT."""
    held = torch.empty(tensor.numel() + ALIGNMENT, dtype=tensor.dtype)
    first = next(i for i in range(ALIGNMENT) if (held.data_ptr() + i * held.element_size()) % ALIGNMENT == offset)
    return held[first : first + tensor.numel()].view(tensor.shape).copy_(tensor)


def saved_model(folder):
    """Write a model whose tensors begin anywhere, and return its file."""
    pocket().save(folder)
    file = folder / "model.safetensors"
    assert not all(map(is_aligned, load_file(file).values()))
    return file


def loaded(folder):
    file = saved_model(folder)
    lm = LanguageModel.load(folder)
    return [*lm.model.parameters(), *lm.model.buffers()], file


def in_another(folder):
    file = saved_model(folder)
    lm = pocket(seed=5).with_weights(folder)
    return [*lm.model.parameters(), *lm.model.buffers()], file


def base_of_an_adapter(folder):
    file = saved_model(folder / "base")
    scrambled(Adapters(LanguageModel.load(folder / "base"), "../base").add(SHAPE, 0)).save(folder / "adapter")
    lm = load_model(folder / "adapter")
    return [*lm.model.parameters(), *lm.model.buffers()], file


def adapter(folder):
    scrambled(Adapters(pocket(), "base").add(SHAPE, 0)).save(folder)
    lm = Adapters(pocket(), "base").with_weights(folder)
    return [*lm.model.parameters(), *lm.model.buffers()], folder / "adapter_model.safetensors"


def policy(folder):
    """Restore a policy with a magnet, a reference and an optimiser that remembers."""
    settings = {"weight_decay": 0.1, "magnet": True, "reference": True}
    trained, restored = (Policy("main", pocket(seed), **settings) for seed in (1, 2))
    for weight in trained.parameters.values():
        weight.grad = torch.ones_like(weight)
    trained.step(0.1)
    trained.save(folder / "main.safetensors")
    restored.restore(folder / "main.safetensors")
    assert len(restored.optimizer.state) == len(restored.parameters)
    return [*restored.tensors().values(), *restored.lm.model.buffers()], folder / "main.safetensors"


def beginning(folder):
    """Let an exploiter go back to what it began with."""
    file, rover = saved_model(folder), Policy("rover", pocket(seed=3), weight_decay=0.0, magnet=True)
    rover.reset(load_file(file))
    return [*rover.tensors().values()], file


def saved_network(folder):
    """Write an untrained exploiter of Kuhn poker, and return its file."""
    facts = ExploiterFacts("kuhn_poker", "random", (0, 1), 8, False, 1.0, 1.0, "random", 0, 0, {})
    save_exploiter(folder, PolicyNet(13, 8, 2), facts)  # Kuhn's tensor has 11 numbers, and there are 2 seats
    return folder / "network.safetensors"


def network(folder):
    file = saved_network(folder)
    return list(load_network(folder, load_facts(folder)).state_dict().values()), file


SOURCES = [loaded, in_another, base_of_an_adapter, adapter, policy, beginning, network]


@pytest.mark.parametrize("load", SOURCES, ids=lambda load: load.__name__)
def test_what_is_loaded_lies_as_what_is_computed(load, tmp_path):
    tensors, _ = load(tmp_path)
    assert len(tensors) > 5
    assert all(map(is_aligned, tensors))


@pytest.mark.parametrize("load", SOURCES, ids=lambda load: load.__name__)
def test_what_is_loaded_outlives_its_file(load, tmp_path):
    tensors, file = load(tmp_path)
    before = [tensor.clone() for tensor in tensors]
    file.chmod(0o644)
    with file.open("r+b") as content:
        content.seek(file.stat().st_size // 2)
        content.write(bytes(file.stat().st_size // 2))
    assert all(map(torch.equal, tensors, before))
    os.truncate(file, 0)  # whoever still looks into it dies by SIGBUS
    assert all(map(torch.equal, tensors, before))


def test_a_tied_weight_stays_one_and_buffers_are_kept(tmp_path):
    saved_model(tmp_path)
    model = LanguageModel.load(tmp_path).model
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert all(map(torch.equal, model.buffers(), pocket().model.buffers()))


@pytest.mark.parametrize("offset", [0, 4, 8, 32])
def test_only_what_begins_elsewhere_is_copied(offset):
    tensor = placed(torch.arange(12.0).view(3, 4), offset)
    found = aligned(tensor)
    assert is_aligned(found)
    assert torch.equal(found, tensor)
    assert (found is tensor) == (offset == 0)


@pytest.fixture
def seen(monkeypatch):
    """Let NumPy stack arrays at 16 bytes behind a multiple of 64, and note how networks are given them."""
    stack, forward, seen = np.stack, PolicyNet.forward, []
    monkeypatch.setattr(np, "stack", lambda arrays: placed(torch.from_numpy(stack(arrays)), 16).numpy())
    monkeypatch.setattr(
        PolicyNet, "forward", lambda net, numbers: seen.append(is_aligned(numbers)) or forward(net, numbers)
    )
    return seen


def test_a_network_plays_on_numbers_that_lie_as_computed_ones(seen, tmp_path):
    resolve(f"best_response:{saved_network(tmp_path).parent}", KUHN, Engines()).tabulate()
    assert seen
    assert all(seen)


def test_a_network_is_trained_on_numbers_that_lie_as_computed_ones(seen):
    training = BestResponseConfig((0, 1), batch=64, minibatch=20, epochs=2, envs=8)
    BestResponse(resolve("random", KUHN, Engines()), training).update()
    assert len(seen) > 10
    assert all(seen)
