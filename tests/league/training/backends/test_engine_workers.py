"""An engine worker loads weights in memory or from its disk, whichever the engine's entry says."""

import random

import pytest
import torch
from support.matches.kuhn import SPEC, kuhn_pocket, kuhn_texts, roles_for
from support.models.pocket import pocket

from arena.cluster.messages import to_remote_requests
from arena.lm.lora import Adapters, AdapterShape, load_model
from arena.records import ReplyRequest
from arena.samplers.torch_lm import TorchLM
from games.registry import make_game
from league.config.load import load
from league.population.players.model_engine import ENGINES, EngineKind
from league.training.backends import engine_worker
from league.training.backends.weight_transfer import BaseWeights, WeightMessage, live_files, read_files, snapshot_files


class DiskEngine(TorchLM):
    """An engine that reads all weights from folders."""

    def __init__(self, source, folder):
        super().__init__()
        self.source, self.folder = source, folder

    def add(self, player, lm):
        lm.save(self.folder / player)
        super().add(player, load_model(self.folder / player))

    def register(self, player, source, check=None, like=None):
        assert like is None
        assert source.is_absolute()
        super().register(player, source, check)


def first_requests(players):
    """Return a request of each player at the first turn of Kuhn poker."""
    game = make_game(SPEC.name)
    game.reset(0)
    seat = game.to_act()
    shown = game.observe(seat), game.legal_actions()
    return [ReplyRequest(player, roles_for()[seat], game, *shown, (), random.Random(0)) for player in players]


def perturbed(lm, seed):
    """Return a model after a random change of its weights, in place of an update."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in lm.parameters().values():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return lm


@pytest.mark.parametrize("adapter", [False, True], ids=["full models", "adapters"])
def test_probabilities_are_the_same_whichever_way_weights_are_loaded(adapter, tmp_path, monkeypatch):
    base = kuhn_pocket()
    base.save(tmp_path / "base")
    adapters = Adapters(base, str(tmp_path / "base")) if adapter else None
    models = [adapters.add(AdapterShape(rank=2), seed) if adapters else base.copy() for seed in range(3)]
    live, frozen, updated = map(perturbed, models, range(3))
    made = []

    def make(config, source):
        made.append(DiskEngine(source(), tmp_path / "own"))
        return made[-1]

    monkeypatch.setitem(ENGINES, "third", EngineKind(make, streams=False, separate_process=True))
    monkeypatch.setattr(engine_worker, "fetch", lambda files: files)
    frozen.save(tmp_path / "frozen")
    weights = {
        "live": WeightMessage("live#1", live_files(live), "main", adapter, live=True),
        "frozen": WeightMessage("frozen", snapshot_files(tmp_path / "frozen"), "main", adapter, live=False),
    }
    update = {"live": WeightMessage("live#2", live_files(updated), "main", adapter, live=True)}
    base_weights = BaseWeights("", read_files(tmp_path / "base"), adapters=adapter)
    probabilities = {}
    for kind in ("torch", "third"):
        config = load("pocket-returns", [f"engine.kind={kind}", f"model.source={tmp_path / 'base'}"])
        worker = engine_worker.EngineWorker(config, {"main": base_weights}, 1.0)
        requests = to_remote_requests(first_requests(["live", "frozen"]))
        before = worker.distributions(weights, requests)
        after = worker.distributions(weights | update, requests)
        assert before[0] != after[0]  # the live model has changed
        assert before[1] == after[1]
        probabilities[kind] = before + after
        folder = worker._on_base["main"]._folder.path
        worker.close()
        assert not folder.exists()
    assert probabilities["third"] == [pytest.approx(row, abs=1e-6) for row in probabilities["torch"]]
    [engine] = made
    assert (engine.source.base is not None) == adapter


def test_players_on_two_bases_say_what_each_of_them_says_alone(tmp_path, monkeypatch):
    """Their widths and vocabularies differ, so that no model could answer for the other."""
    monkeypatch.setattr(engine_worker, "fetch", lambda files: files)
    models = {"a": kuhn_pocket(), "b": pocket(hidden_size=48, texts=kuhn_texts(), vocabulary=300)}
    weights, bases = {}, {}
    for name, lm in models.items():
        lm.save(tmp_path / name)
        bases[name] = BaseWeights("", read_files(tmp_path / name), adapters=False)
        weights[f"{name}-000000"] = WeightMessage("0", snapshot_files(tmp_path / name), name, adapter=False, live=False)
        weights[name] = WeightMessage("#1", live_files(perturbed(lm, 1)), name, adapter=False, live=True)
    config = load("pocket-returns", ["policies.main.model.hidden_size=48"])
    config = config.model_copy(update={"policies": {"b": config.policies["main"]}})
    worker = engine_worker.EngineWorker(config, bases, 1.0)
    said = worker.distributions(weights, to_remote_requests(first_requests(["b", "a-000000", "a", "b-000000"])))
    alone = TorchLM()
    for name, lm in models.items():
        alone.add(name, lm)
        alone.register(f"{name}-000000", tmp_path / name)
    expected = alone.distributions(first_requests(["b", "a-000000", "a", "b-000000"]))
    assert said == [pytest.approx(row, abs=1e-6) for row in expected]
    assert len(set(expected)) == 4
    worker.close()
