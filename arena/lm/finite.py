"""Refuses to play a model whose numbers are not finite (NaN or infinite): its replies have no probabilities.

An engine in this process checks the log-probs of each reply. One in processes of its own checks the weights that it is
given as well, because what comes back of NaN is up to that program.
"""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import torch
from safetensors import safe_open

from games.common.errors import UsageError


class NotFinite(UsageError):
    """A player's weights or log-probs are not finite."""


def check_logprobs(player: str, total: float, *, live: bool) -> None:
    """Raise NotFinite if the sum of a player's log-probs is not finite; ``live`` players' weights are in training."""
    if not isfinite(total):
        raise _refusal(player, live, "its model computes numbers that are not finite (NaN or infinite)")


def check_weights(player: str, folder: Path, *, live: bool) -> None:
    """Raise NotFinite, with the tensor's name, for a folder with weights that are not finite. It reads all of them."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  # it is no dictionary
                if not _is_finite(file.get_tensor(name)):
                    raise _refusal(player, live, f"{name} in its weights is not finite (NaN or infinite)")


def _is_finite(tensor: torch.Tensor) -> bool:
    """Return whether all numbers are finite, without a mask as large as the tensor."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    if tensor.element_size() == 1:  # eight bits: no minimum and maximum are defined for them
        tensor = tensor.float()
    return all(isfinite(bound) for bound in map(float, torch.aminmax(tensor)))


def _refusal(player: str, live: bool, reason: str) -> NotFinite:
    advice = (
        "The last update of this policy has broken its weights. Train again with a lower optimizer.learning_rate."
        if live
        else "Its weights were broken when they were saved. Use another player, such as an earlier snapshot, or "
        "restore the model from a copy."
    )
    return NotFinite(f"{player} cannot play: {reason}, so its replies have no probabilities. {advice}")
