"""Weights that are not finite, or compute such numbers, reach no match: of adapters, and of a policy in training."""

import random
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.matches.kuhn import FREE, kuhn_matches, played, roles_for
from support.models.adapters import scrambled

from arena.lm.finite import NotFinite
from arena.lm.lora import AdapterShape
from arena.lm.tokenization import ChatTokenizer
from arena.records import ReplyRequest
from games.registry import make_game


@pytest.mark.parametrize("number", [torch.nan, torch.inf], ids=["nan", "inf"])
def test_a_broken_adapter_is_refused_by_name(number, engine, adapter_folders, tmp_path):
    folder = shutil.copytree(adapter_folders["adapter1"], tmp_path / "broken")
    weights = load_file(folder / "adapter_model.safetensors")
    name = sorted(weights)[-1]
    weights[name].view(-1)[-1] = number
    save_file(weights, folder / "adapter_model.safetensors")
    player = f"broken {number}"
    engine.register(player, folder)
    with pytest.raises(NotFinite, match=f"{player} cannot play: .*{name} in its weights is not finite"):
        played(engine, kuhn_matches(2, ("adapter0", player)), 2, roles_for())
    assert played(engine, kuhn_matches(2, ("adapter0", "adapter1")), 2, roles_for())


def test_a_policy_in_training_is_refused_from_its_first_broken_weights_on(engine, adapters):
    live = scrambled(adapters.add(AdapterShape(rank=8, alpha=16.0), 7), 3)
    engine.add("live", live)
    assert played(engine, kuhn_matches(2, ("live", "live")), 2, roles_for())
    with torch.no_grad():
        next(iter(live.parameters().values())).view(-1)[0] = torch.nan
    engine.refresh()
    with pytest.raises(NotFinite, match=r"live cannot play: .* The last update of this policy"):
        played(engine, kuhn_matches(2, ("live", "live")), 2, roles_for())
    assert len(list(engine._folder.glob("[0-9]*"))) == 1  # the broken ones are not kept


@pytest.fixture
def huge_folder(adapter_folders, tmp_path):
    """Return the folder of an adapter whose weights are finite and compute NaN."""
    folder = shutil.copytree(adapter_folders["adapter1"], tmp_path / "huge")
    weights = load_file(folder / "adapter_model.safetensors")
    save_file({name: weight * 1e30 for name, weight in weights.items()}, folder / "adapter_model.safetensors")
    return folder


@pytest.mark.parametrize("form", [{}, FREE], ids=["choice", "free"])
def test_finite_weights_that_compute_nan_are_refused_by_what_they_compute(form, engine, huge_folder):
    player = f"huge {sorted(form)}"
    engine.register(player, huge_folder)
    with pytest.raises(NotFinite, match="cannot play: its model computes numbers that are not finite"):
        played(engine, kuhn_matches(2, (player, player)), 2, roles_for(**form))


@pytest.fixture
def small_engine(base_folder, adapter_folders, huge_folder):
    """Return vLLM with room for so few keys and values that every block of them is soon used again."""
    from arena.samplers.vllm_lm import VllmLM
    from arena.samplers.vllm_shape import VllmShape

    shape = VllmShape(adapters=True, max_lora_rank=8, max_model_len=1024, kv_gib=0.01)
    engine = VllmLM(base_folder, ChatTokenizer.read(base_folder), shape)
    for player, folder in {"base": base_folder, "healthy": adapter_folders["adapter1"], "huge": huge_folder}.items():
        engine.register(player, folder)
    yield engine
    engine.close()


def test_nan_of_one_player_breaks_no_reply_of_another(small_engine):
    """It stays in the cache of keys and values, which other players' sequences use after it."""

    def tables(player):
        requests = [
            ReplyRequest(player, roles_for()[0], game, game.observe(0), game.legal_actions(), (), random.Random(0))
            for game in games
        ]
        return small_engine.distributions(requests)

    games = [make_game("kuhn_poker") for _ in range(12)]
    for seed, game in enumerate(games):
        game.reset(seed)
    expected = [tables(player) for player in ("healthy", "base")]
    with pytest.raises(NotFinite, match="huge cannot play"):
        played(small_engine, kuhn_matches(16, ("huge", "huge")), 16, roles_for(**FREE))
    for player in ("healthy", "base"):
        assert played(small_engine, kuhn_matches(48, (player, player)), 8, roles_for(**FREE))
    small_engine.refresh()
    for player, before in zip(("healthy", "base"), expected, strict=True):
        for one, other in zip(tables(player), before, strict=True):
            assert one == pytest.approx(other, abs=1e-5)
