"""Several adapters on one base in one pass, each for its own rows.

The adapters' matrices stand side by side: one product with all A, of which each row keeps its own adapter's part, and
one with all B. That takes as many times an adapter's work as there are adapters, which is little beside the base's, and
the base's weights are read once for all rows. (S-LoRA, arXiv 2311.03285, gathers each row's adapter instead.)
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from arena.lm.lora import Adapters

MIXED = "several"  # no adapter's name


class Runs(Protocol):
    """What runs passes over rows: a view on a model, or several of them."""

    view: str

    def forward(self, **inputs: Any) -> Any:
        """Return the model's output."""
        ...


class Mixture:
    """Passes in which row r has adapter k as far as ``shares[r, k]`` says: 1, or 0; without any it is the base's."""

    def __init__(self, adapters: Adapters, names: tuple[str, ...], shares: Tensor) -> None:
        self._adapters, self._names, self._shares = adapters, names, shares  # [R, K]
        self.view = " ".join(names)

    def forward(self, **inputs: Any) -> Any:
        """See ``Runs``."""
        adapters = self._adapters
        adapters.activate(None)
        for _, layer in adapters.layers:
            layer.mixture = [(name, self._shares[:, k]) for k, name in enumerate(self._names)]
        adapters.active = MIXED
        return adapters.base.model(**inputs)
