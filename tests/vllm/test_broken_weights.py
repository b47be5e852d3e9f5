"""Weights that are not finite, or compute such numbers, reach no match: of adapters, and of a policy in training."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.matches.kuhn import FREE, kuhn_matches, played, roles_for
from support.models.adapters import scrambled

from arena.lm.finite import NotFinite
from arena.lm.lora import AdapterShape

pytestmark = pytest.mark.xdist_group("adapters")  # one engine for all of a group


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


@pytest.mark.parametrize("form", [{}, FREE], ids=["choice", "free"])
def test_finite_weights_that_compute_nan_are_refused_by_what_they_compute(form, engine, adapter_folders, tmp_path):
    folder = shutil.copytree(adapter_folders["adapter1"], tmp_path / "huge")
    weights = load_file(folder / "adapter_model.safetensors")
    save_file({name: weight * 1e30 for name, weight in weights.items()}, folder / "adapter_model.safetensors")
    player = f"huge {sorted(form)}"
    engine.register(player, folder)
    with pytest.raises(NotFinite, match="cannot play: its model computes numbers that are not finite"):
        played(engine, kuhn_matches(2, (player, player)), 2, roles_for(**form))
