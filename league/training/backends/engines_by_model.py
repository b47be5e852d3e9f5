"""Engines of a run whose policies start from several base models: one for each, shared by its policies' players.

A player belongs to the engine of the model that it was added with, or whose shape it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from arena.lm.language_model import LanguageModel
from arena.records import Believing, Reply, ReplyRequest
from arena.samplers.torch_lm import LoadsWeights
from league.population.players.model_engine import ModelEngine

Answer = TypeVar("Answer")


class ModelsEngine(NamedTuple):
    """An engine, and the models in training that it plays."""

    engine: ModelEngine
    models: tuple[LanguageModel, ...]


class EnginesByModel:
    """A ``ModelEngine`` made of several, each for the players of some models."""

    def __init__(self, engines: Sequence[ModelsEngine]) -> None:
        self._engines = tuple(engines)
        self._by_player: dict[str, ModelEngine] = {}

    @property
    def tokens(self) -> int:
        """See ``ModelEngine``."""
        return sum(member.engine.tokens for member in self._engines)

    def engine_of(self, player: str) -> ModelEngine:
        """Return a player's engine."""
        return self._by_player[player]

    def add(self, player: str, lm: LanguageModel) -> None:
        """See ``ModelEngine``."""
        self._by_player[player] = self._engine_for(lm)
        self._by_player[player].add(player, lm)

    def register(
        self,
        player: str,
        source: str | Path,
        check: Callable[[], object] | None = None,
        like: LoadsWeights | None = None,
    ) -> None:
        """See ``ModelEngine``; ``like`` is one of the models in training."""
        self._by_player[player] = self._engine_for(like)
        self._by_player[player].register(player, source, check, like)

    def keep(self, name: str, player: str, lm: LanguageModel) -> None:
        """See ``ModelEngine``."""
        self._by_player[name] = self._by_player[player]
        self._by_player[name].keep(name, player, lm)

    def drop(self, name: str) -> None:
        """See ``ModelEngine``."""
        self._by_player.pop(name).drop(name)

    def refresh(self) -> None:
        """See ``ModelEngine``."""
        for member in self._engines:
            member.engine.refresh()

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """See ``ModelEngine``."""
        return asked_by_engine(requests, self.engine_of, lambda engine, batch: engine.sample(batch))

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """See ``ModelEngine``."""
        return asked_by_engine(requests, self.engine_of, lambda engine, batch: engine.distributions(batch))

    def beliefs(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...] | None]:
        """See ``arena.records.Believing``."""
        return asked_by_engine(requests, self.engine_of, lambda engine, batch: cast(Believing, engine).beliefs(batch))

    def sleep(self) -> None:
        """See ``ModelEngine``."""
        for member in self._engines:
            member.engine.sleep()

    def close(self) -> None:
        """See ``ModelEngine``."""
        for member in self._engines:
            member.engine.close()

    def _engine_for(self, lm: object) -> ModelEngine:
        return next(member.engine for member in self._engines if any(lm is model for model in member.models))


def asked_by_engine(
    requests: Sequence[ReplyRequest],
    engine_of: Callable[[str], ModelEngine],
    ask: Callable[[ModelEngine, list[ReplyRequest]], Sequence[Answer]],
) -> list[Answer]:
    """Return one answer for each request, in order; each engine is asked once."""
    answers: dict[int, Answer] = {}
    engines = [engine_of(request.player) for request in requests]
    for engine in {id(engine): engine for engine in engines}.values():
        indices = [i for i, other in enumerate(engines) if other is engine]
        answers |= zip(indices, ask(engine, [requests[i] for i in indices]), strict=True)
    return [answers[i] for i in range(len(requests))]
