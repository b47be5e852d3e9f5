"""Weights made of several parents': worked numbers, identities to the bit, and approximations that are best."""

import pytest
import torch

from league.lab.breeding.weights import A_PART, B_PART, combined, crossed, ties, weighted

GENERATOR = torch.Generator().manual_seed(0)
ZERO = {"w": torch.zeros(4)}


def vectors(*rows):
    return [{"w": torch.tensor(row)} for row in rows]


def adapter(seed, rank=2):
    generator = torch.Generator().manual_seed(seed)
    return {
        f"layer{A_PART}": torch.randn(rank, 5, generator=generator),
        f"layer{B_PART}": torch.randn(6, rank, generator=generator),
    }


def product(tensors):
    return tensors[f"layer{B_PART}"] @ tensors[f"layer{A_PART}"]


@pytest.mark.parametrize(
    "rule", [weighted([2.0, 1.0]), ties(0.2), crossed(0.3, GENERATOR)], ids=["mean", "ties", "cross"]
)
@pytest.mark.parametrize("one", [adapter(3), {"w": torch.tensor([0.1, -0.0, 1e-30, 7.0])}], ids=["adapter", "full"])
def test_equal_parents_give_the_same_weights_to_the_bit(rule, one):
    base = {name: torch.ones_like(tensor) for name, tensor in one.items()}
    made = combined([one, {name: tensor.clone() for name, tensor in one.items()}], base, rule)
    assert made.keys() == one.keys()
    assert all(made[name].numpy().tobytes() == one[name].numpy().tobytes() for name in one)


def test_a_weighted_mean_by_hand():
    made = combined(vectors([1.0, 0.0, 2.0, 4.0], [4.0, 3.0, 2.0, 1.0]), ZERO, weighted([2.0, 1.0]))
    assert made["w"].tolist() == pytest.approx([2.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("density", "expected"),
    [
        (1.0, [2.0, 5.0, -3.0, 0.2]),  # sums 4, 1, -2, 0.1: their signs are elected, and who agrees counts
        (0.5, [3.0, 5.0, -3.0, 0.0]),  # trimmed to 3, -4, 0, 0 and 0, 5, -3, 0
    ],
)
def test_ties_by_hand(density, expected):
    base = {"w": torch.full((4,), 10.0)}
    parents = vectors([13.0, 6.0, 11.0, 10.2], [11.0, 15.0, 7.0, 9.9])
    made = combined(parents, base, ties(density))
    assert (made["w"] - 10.0).tolist() == pytest.approx(expected, abs=1e-5)


def test_adapters_are_merged_as_the_change_that_they_make():
    """The mean of two changes of rank 2 has rank 4: with as much rank it is exact, with 2 the best that 2 can do."""
    first, second = adapter(1), adapter(2)
    mean = (product(first) + product(second)) / 2.0
    made = combined([first, second], first, weighted([1.0, 1.0]))
    assert made[f"layer{A_PART}"].shape == first[f"layer{A_PART}"].shape
    left, values, right = torch.linalg.svd(mean)
    best = (left[:, :2] * values[:2]) @ right[:2]
    assert torch.allclose(product(made), best, atol=1e-5)
    assert float((product(made) - mean).norm()) == pytest.approx(float(values[2:].norm()), rel=1e-4)
    wide = [{**adapter(seed, rank=4)} for seed in (1, 1)]
    wide[1] = {name: 3.0 * tensor for name, tensor in wide[1].items()}
    assert torch.allclose(product(combined(wide, wide[0], weighted([1.0, 1.0]))), 5.0 * product(wide[0]), atol=1e-4)


def test_a_child_moves_along_its_parents_directions_and_along_no_others():
    generator = torch.Generator().manual_seed(4)
    base = {"w": torch.randn(6, 5, generator=generator)}
    parents = [
        {"w": base["w"] + torch.randn(6, 1, generator=generator) @ torch.randn(1, 5, generator=generator)} for _ in "ab"
    ]
    change = combined(parents, base, crossed(0.5, generator))["w"] - base["w"]
    both = torch.cat([parent["w"] - base["w"] for parent in parents])
    basis = torch.linalg.svd(both)[2][:2]  # of the rows that the parents' changes span
    assert torch.allclose(change @ basis.T @ basis, change, atol=1e-5)
    assert float(change.norm()) > 0.1
    middle = combined(parents, base, crossed(0.0, generator))["w"]
    assert torch.allclose(middle, (parents[0]["w"] + parents[1]["w"]) / 2.0, atol=1e-6)
