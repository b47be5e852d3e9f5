"""A policy of a large game in a file that is mapped into memory, written while the player is asked.

A killed command goes on where the last batch was written: beside the table stands how many states were asked, of which
weights, prompts and game. A table of anything else is begun anew.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from games.common.files import atomic_write
from league.theory.public.tree import Floats


class PublicTable:
    """One player's policy; ``policy`` is the mapped file."""

    def __init__(self, folder: Path, name: str, game: str, uniform: Floats, of: object) -> None:
        """Open the table ``name``, or make it, uniform; ``of`` is all that the policy depends on, as JSON data."""
        facts = json.dumps([game, uniform.shape, of], sort_keys=True)
        self._seal = hashlib.sha256(facts.encode()).hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{name}.{game}.{self._seal[:12]}"
        self._progress, path = folder / f"{stem}.json", folder / f"{stem}.npy"
        self.asked = self._read(path, uniform.shape)
        if not self.asked:
            np.lib.format.open_memmap(path, "w+", np.float64, uniform.shape)[:] = uniform
        self.policy: Floats = np.lib.format.open_memmap(path, "r+", np.float64, uniform.shape)

    def keep(self, asked: int) -> None:
        """Write to the disk what was asked so far, then how much that is."""
        if asked > self.asked:
            self.policy.flush()  # type: ignore[attr-defined]  # of a memory map
            atomic_write(self._progress, json.dumps({"asked": asked, "of": self._seal}))
            self.asked = asked

    def _read(self, path: Path, shape: tuple[int, ...]) -> int:
        """Return how many states of the file are written; 0 where it is none of ours, or is damaged."""
        try:
            progress = json.loads(self._progress.read_bytes())
            if progress["of"] == self._seal and np.load(path, mmap_mode="r").shape == shape:
                return int(progress["asked"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return 0
