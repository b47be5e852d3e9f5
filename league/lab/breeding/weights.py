"""Weights made of several parents' weights: weighted means, TIES-Merging, and crossing along singular vectors.

All take the parents' tensors by parameter name. If all parents are equal, the result is the same weights, bit for bit.
An adapter's change of a weight is the product B A of its factors: the mean of factors is not the factor of the mean,
so adapters are combined as products, and the best approximation of the adapter's rank is kept (Eckart and Young 1936).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]
A_PART, B_PART = ".lora_A.weight", ".lora_B.weight"  # of an adapter's factors


def combined(
    parents: Sequence[Tensors], base: Tensors, combine: Callable[[Sequence[Tensors], Tensors], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """Return ``combine`` of the parents and the weights that they began from; equal parents give their own weights.

    Adapters are combined as products, which began at 0.
    """
    first = parents[0]
    if all(torch.equal(first[name], other[name]) for other in parents[1:] for name in first):
        return {name: tensor.clone() for name, tensor in first.items()}
    if not any(name.endswith(A_PART) for name in first):
        return combine(parents, base)
    changes = [_products(parent) for parent in parents]
    nothing = {name: torch.zeros_like(tensor) for name, tensor in changes[0].items()}
    combination = combine(changes, nothing)
    return {
        part: factor
        for name, change in combination.items()
        for part, factor in _factors(name, change, first[f"{name}{A_PART}"].shape[0]).items()
    }


def weighted(shares: Sequence[float]) -> Callable[[Sequence[Tensors], Tensors], dict[str, Tensor]]:
    """Return the rule Σ_i s_i θ_i, with shares normalised to sum to one."""
    total = sum(shares)

    def combine(parents: Sequence[Tensors], _: Tensors) -> dict[str, Tensor]:
        first, *others = parents
        return {
            name: tensor
            + sum(
                (share / total * (other[name] - tensor) for share, other in zip(shares[1:], others, strict=True)),
                torch.zeros_like(tensor),
            )
            for name, tensor in first.items()
        }

    return combine


def ties(density: float, scale: float = 1.0) -> Callable[[Sequence[Tensors], Tensors], dict[str, Tensor]]:
    """Return TIES-Merging (Yadav et al. 2023, arXiv 2306.01708): trim, elect signs, mean of those who agree.

    Of each parent's changes θ_i − θ_base the share ``density`` of largest magnitude is kept, over all tensors; γ is the
    sign of their sum; the change is ``scale`` times the mean of the kept changes with sign γ.
    """

    def combine(parents: Sequence[Tensors], base: Tensors) -> dict[str, Tensor]:
        changes = [_trimmed({name: parent[name] - base[name] for name in parent}, density) for parent in parents]
        merged = {}
        for name in parents[0]:
            stacked = torch.stack([change[name] for change in changes])  # [parents, …]
            agree = (stacked.sign() == stacked.sum(0).sign()) & (stacked != 0)
            mean = (stacked * agree).sum(0) / agree.sum(0).clamp(min=1)
            merged[name] = base[name] + scale * mean
        return merged

    return combine


def crossed(noise: float, generator: torch.Generator) -> Callable[[Sequence[Tensors], Tensors], dict[str, Tensor]]:
    """Return the crossing and mutation of CycleQD (Kuroki et al. 2024, arXiv 2410.14735), for any number of parents.

    The child's change is Σ_i w_i τ_i / Σ_i w_i of the parents' changes τ_i, with w_i drawn from N(1, noise²). Then the
    singular values of each matrix U S Vᵀ of the change are multiplied by exp(noise · N(0, 1)): it moves only along
    directions that its parents have.
    """

    def combine(parents: Sequence[Tensors], base: Tensors) -> dict[str, Tensor]:
        drawn = (1.0 + noise * torch.randn(len(parents), generator=generator)).clamp(min=1e-3)
        shares: list[float] = (drawn / drawn.sum()).tolist()
        child = {}
        for name, begun in base.items():
            change = sum(
                (share * (parent[name] - begun) for share, parent in zip(shares, parents, strict=True)),
                torch.zeros_like(begun),
            )
            child[name] = begun + _along_singular_vectors(change, noise, generator)
        return child

    return combine


def _along_singular_vectors(change: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    if change.ndim != 2 or not noise:
        return change
    left, values, right = torch.linalg.svd(change.double(), full_matrices=False)
    factors = torch.exp(noise * torch.randn(len(values), generator=generator)).to(values)
    moved: Tensor = (left * (values * factors)) @ right
    return moved.to(change)


def _trimmed(change: Tensors, density: float) -> dict[str, Tensor]:
    """Return the largest share of a change by magnitude, 0 elsewhere."""
    sizes = torch.cat([tensor.abs().flatten() for tensor in change.values()])
    count = max(round(density * len(sizes)), 1)
    least = sizes.kthvalue(len(sizes) - count + 1).values
    return {name: torch.where(tensor.abs() >= least, tensor, 0.0) for name, tensor in change.items()}


def _products(adapter: Tensors) -> dict[str, Tensor]:
    """Return the change of each weight, B A, without the adapter's constant scale."""
    names = [name.removesuffix(A_PART) for name in adapter if name.endswith(A_PART)]
    return {name: adapter[f"{name}{B_PART}"] @ adapter[f"{name}{A_PART}"] for name in names}


def _factors(name: str, change: Tensor, rank: int) -> dict[str, Tensor]:
    """Return factors of this rank whose product is nearest to a change; each takes the root of its singular values."""
    left, values, right = torch.linalg.svd(change.double(), full_matrices=False)
    root = values[:rank].sqrt()
    a_part, b_part = root[:, None] * right[:rank], left[:, :rank] * root
    missing = rank - len(root)  # of a matrix smaller than the rank
    if missing > 0:
        a_part = torch.nn.functional.pad(a_part, (0, 0, 0, missing))
        b_part = torch.nn.functional.pad(b_part, (0, missing))
    return {f"{name}{A_PART}": a_part.to(change), f"{name}{B_PART}": b_part.to(change)}
