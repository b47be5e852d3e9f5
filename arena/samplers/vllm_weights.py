"""The weights that vLLM serves for players: snapshots' folders, and written versions of live models."""

from __future__ import annotations

import filecmp
import shutil
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

from arena.lm.finite import check_weights
from arena.lm.language_model import LanguageModel
from arena.lm.lora import is_adapter, read_shape
from arena.samplers.vllm_shape import VllmShape, Weights
from games.common.errors import UsageError, unknown_name


class PlayerWeights:
    """The present weights of each player, and earlier weights for matches under way that began with them."""

    def __init__(
        self, base: str | Path | None, shape: VllmShape, folder: Path, gone: Callable[[Weights], None]
    ) -> None:
        """Take the engine's base (None: players are whole models) and a folder for versions of live models.

        ``gone`` is called with the weights whose folder is about to be removed.
        """
        self._base, self._shape, self._folder, self._gone = base, shape, folder, gone
        self._live: dict[str, LanguageModel] = {}
        self._sources: dict[str, Callable[[], Path]] = {}
        self._current: dict[str, Weights] = {}  # by player
        self._stale: set[str] = set()  # live players whose weights may have changed
        self._pinned: dict[str, Weights] = {}  # by name
        self._pins: Counter[str] = Counter()  # by name of weights
        self._numbers = count(1)

    def add(self, player: str, lm: LanguageModel) -> None:
        """Add a live model; its weights at each ``refresh`` are used from then on."""
        self._live[player] = lm
        self._stale.add(player)

    def register(self, player: str, source: str | Path, check: Callable[[], object] | None) -> None:
        """Register a folder or the engine's base; ``check``, which may raise, is called before its first use."""

        def folder() -> Path:
            if check is not None:
                check()
            if not self._shape.adapters or is_adapter(source):
                return Path(source)
            if str(source) != str(self._base):
                raise UsageError(f"{source} is not an adapter of {self._base}, the only model of this engine.")
            return Path(source)

        self._sources[player] = folder

    def keep(self, player: str, lm: LanguageModel) -> None:
        """Add a player with a live model's present weights, which it keeps until ``forget``."""
        number = next(self._numbers)
        weights = Weights(player, number, player, self._folder / str(number), version=lm.version)
        lm.save(weights.folder)
        self._check(player, weights.folder)
        self._current[player] = weights

    def forget(self, player: str) -> None:
        """Remove a player that ``keep`` added, and its weights."""
        self._remove(self._current.pop(player))

    def refresh(self) -> None:
        """Use the live models' present weights from now on."""
        self._stale.update(self._live)

    def is_live(self, player: str) -> bool:
        """Return whether a player's weights are in training."""
        return player in self._live

    def pin(self, player: str) -> str:
        """Keep a player's present weights until ``unpin``; return their name, which ``of`` takes as a player's."""
        weights = self.of(player)
        self._pinned[weights.name] = weights
        self._pins[weights.name] += 1
        return weights.name

    def unpin(self, weights: str) -> None:
        """Let weights go that ``pin`` has named."""
        self._pins[weights] -= 1
        if not self._pins[weights]:
            self._drop(self._pinned.pop(weights))

    def of(self, player: str) -> Weights:
        """Return the present weights of a player, or the pinned weights of a name."""
        if player in self._pinned:
            return self._pinned[player]
        if player in self._live and player in self._stale:
            self._publish(player)
        elif player not in self._current:
            if player not in self._sources:
                raise unknown_name("language-model player", player, [*self._live, *self._sources])
            folder = self._sources[player]()
            bare = self._shape.adapters and not is_adapter(folder)
            self._check(player, folder, bare)
            self._current[player] = Weights(player, next(self._numbers), player, folder, bare)
        return self._current[player]

    def _publish(self, player: str) -> None:
        """Write a live player's weights, under a new name if they differ from the last ones."""
        number, before = next(self._numbers), self._current.get(player)
        lm = self._live[player]
        weights = Weights(f"{player}#{number}", number, player, self._folder / str(number), version=lm.version)
        lm.save(weights.folder)
        try:
            self._check(player, weights.folder)
        except UsageError:
            shutil.rmtree(weights.folder)
            raise
        self._stale.discard(player)
        if before is not None and _equal_files(before.folder, weights.folder):
            shutil.rmtree(weights.folder)
            return
        self._current[player] = weights
        if before is not None:
            self._drop(before)

    def _drop(self, weights: Weights) -> None:
        """Remove old weights of a live player that are not pinned."""
        if weights.player in self._live and not self._pins[weights.name] and self._current[weights.player] != weights:
            self._remove(weights)

    def _remove(self, weights: Weights) -> None:
        self._gone(weights)
        shutil.rmtree(weights.folder)

    def _check(self, player: str, folder: Path, bare: bool = False) -> None:
        """Raise UsageError for weights that are not finite, or an adapter of too high a rank."""
        if self._shape.adapters and not bare and (rank := read_shape(folder).rank) > self._shape.max_lora_rank:
            raise UsageError(
                f"The adapter in {folder} has rank {rank}, and the engine takes at most {self._shape.max_lora_rank}. "
                f"Set engine.vllm.max_lora_rank = {rank}."
            )
        check_weights(player, folder, live=player in self._live)


def _equal_files(a: Path, b: Path) -> bool:
    """Return whether two folders hold the same files."""
    names = sorted(path.name for path in a.iterdir())
    if names != sorted(path.name for path in b.iterdir()):
        return False
    return all(filecmp.cmp(a / name, b / name, shallow=False) for name in names)
