"""The running mean of a policy's weights: its arithmetic, its file, and what is handed over."""

import pytest
import torch
from safetensors.torch import load_file
from support.models.pocket import pocket

from arena.lm.lora import WEIGHTS_FILE, Adapters, AdapterShape
from learners.update.average import WeightAverage
from learners.update.policy import Policy

SHAPE = AdapterShape(rank=2, alpha=4.0, targets=("q_proj",))


def policy(seed=0, average=0.5):
    return Policy("main", pocket(seed), weight_decay=0.0, magnet=False, average=average)


def moved(policy, amount):
    """Take an update that adds a number to every weight."""
    with torch.no_grad():
        for weight in policy.parameters.values():
            weight += amount
    policy.finish_update()


def test_a_mean_is_plain_at_first_and_then_spans_its_decay():
    """At 0.5, of 4, 8, 1 and 3: 4, (4 + 8) / 2, (6 + 1) / 2, (3.5 + 3) / 2; where it began counts no more."""
    average, means = WeightAverage({"w": torch.tensor([100.0])}, 0.5), []
    for weight in (4.0, 8.0, 1.0, 3.0):
        average.fold({"w": torch.tensor([weight])})
        means.append(average.means["w"].item())
    assert means == pytest.approx([4.0, 6.0, 3.5, 3.25])


def test_with_a_long_decay_it_is_the_mean_of_all_weights():
    average = WeightAverage({"w": torch.zeros(1)}, 0.999)
    for weight in range(1, 11):
        average.fold({"w": torch.tensor([float(weight)])})
    assert average.means["w"].item() == pytest.approx(5.5)


def test_steps_too_small_for_the_models_precision_add_up():
    """bfloat16 keeps 8 bits: 1 + 1/1024 is 1 there."""
    average = WeightAverage({"w": torch.tensor([1.0], dtype=torch.bfloat16)}, 0.9)
    for _ in range(4):
        average.fold({"w": torch.tensor([1.0 + 1 / 1024])})
    assert average.means["w"].item() == pytest.approx(1.0 + 1 / 1024)


def test_what_is_handed_over_is_the_mean_and_what_trains_stays(tmp_path):
    trained = policy()
    first = {name: weight.detach().clone() for name, weight in trained.parameters.items()}
    moved(trained, 1.0)
    moved(trained, 1.0)
    trained.save_model(tmp_path / "mean")
    mean = trained.lm.with_weights(tmp_path / "mean")
    for name, weight in mean.parameters().items():
        torch.testing.assert_close(weight, first[name] + 1.5)
        torch.testing.assert_close(trained.lm.parameters()[name], first[name] + 2.0)


def test_an_adapters_mean_is_an_adapter_and_leaves_none_behind(tmp_path):
    adapters = Adapters(pocket(), "base")
    trained = Policy("main", adapters.add(SHAPE, 0), weight_decay=0.0, magnet=False, average=0.5)
    modules = sum(1 for _ in adapters.base.model.modules())
    moved(trained, 1.0)
    moved(trained, 1.0)
    trained.save_model(tmp_path)
    assert sum(1 for _ in adapters.base.model.modules()) == modules
    saved = load_file(tmp_path / WEIGHTS_FILE)
    for name, weight in trained.parameters.items():
        torch.testing.assert_close(saved[f"base_model.model.{name}"], weight.detach() - 0.5)


def test_a_restored_policy_goes_on_with_its_mean(tmp_path):
    trained, restored = policy(), policy(1)
    moved(trained, 1.0)
    trained.save(tmp_path / "policy.safetensors")
    restored.restore(tmp_path / "policy.safetensors")
    for each in (trained, restored):
        moved(each, 1.0)
    assert restored.average.updates == trained.average.updates == 2
    for name, mean in trained.average.means.items():
        assert torch.equal(restored.average.means[name], mean)


def test_a_reset_policys_mean_begins_anew():
    trained, fresh = policy(), policy(1)
    moved(trained, 1.0)
    trained.reset(fresh.parameters)
    assert trained.average.updates == 0
    for name, mean in trained.average.means.items():
        assert torch.equal(mean, fresh.parameters[name])


def test_an_evolved_policy_takes_the_mean_along_or_begins_one():
    trained, evolved = policy(), policy(1)
    moved(trained, 1.0)
    moved(trained, 1.0)
    evolved.copy_from(trained)
    assert evolved.average.updates == 2
    assert all(torch.equal(mean, trained.average.means[name]) for name, mean in evolved.average.means.items())
    plain = policy(average=None)
    plain.copy_from(trained)
    assert plain.average is None
