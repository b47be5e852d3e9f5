"""The backend of one machine: this process plays the matches, and local processes learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from arena.lm.language_model import LanguageModel
from arena.records import Episode, MatchRequest
from arena.remote.usage import Usage
from arena.scheduler import play
from games.registry import make_game
from league.backends.engines_by_model import EnginesByModel, ModelsEngine
from league.backends.interface import Metrics, RolloutBackend
from league.config import RunConfig
from league.config.load import run_roles
from league.learning.data_parallel import FollowerProcesses
from league.learning.learner import Learner
from league.learning.learner_pool import LearnerPool
from league.models.base_model import verified_base
from league.players.engines import Engines
from league.players.given import given_players
from league.players.machine import check_processes
from league.players.model_engine import ModelEngine, ModelSource, check_context, engine_kind
from league.players.outside import anchors_and_guests
from league.storage.run_state import RunState
from learners.update.policy import Policy
from roles.role import Roles


class LocalRollouts:
    """A ``RolloutBackend`` that plays in this process."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path,
        roles: Roles,
        policies: Mapping[str, Policy],
        engines: Engines | None = None,
    ) -> None:
        engines = engines or Engines()
        self.given, self._in_flight = given_players(roles, engines), config.in_flight
        self._outside = anchors_and_guests(config, engines) | dict(self.given.engines)
        engines_by_model = [
            ModelsEngine(
                _engine_on(config, run_dir, roles, group, policies[group[0]].lm),
                tuple(policies[name].lm for name in group),
            )
            for group in config.by_model(policies).values()
        ]
        self.engine: ModelEngine = (
            EnginesByModel(engines_by_model) if len(engines_by_model) > 1 else engines_by_model[0].engine
        )

    def play(self, requests: Sequence[MatchRequest]) -> list[Episode]:
        """See ``RolloutBackend``."""
        return play(
            requests,
            roles_of=self.given.roles.__getitem__,
            engine_of=lambda player: self._outside.get(player) or self._model_engine(player),
            make_game=make_game,
            in_flight=self._in_flight,
            asks=lambda request: any(request.trained),  # not in matches that only measure
        )

    def metrics(self) -> Metrics:
        """See ``RolloutBackend``."""
        return {}

    def close(self) -> None:
        """See ``RolloutBackend``."""
        self.engine.close()

    def _model_engine(self, player: str) -> ModelEngine:
        return self.engine.engine_of(player) if isinstance(self.engine, EnginesByModel) else self.engine


def _engine_on(
    config: RunConfig, run_dir: Path, roles: Roles, policies: Sequence[str], tokenizer: LanguageModel
) -> ModelEngine:
    """Return an engine for policies on one base model."""
    check_context(config, roles, tokenizer)
    adapted = [name for name in policies if config.policy(name).adapted]
    return engine_kind(config).make(
        config.for_policy(policies[0]),
        lambda: ModelSource(tokenizer, verified_base(config, run_dir, adapted[0]) if adapted else None),
    )


class LocalDeployment:
    """A ``Deployment`` on this machine."""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        check_processes(config, run_roles(config))
        self.on_cpu = False
        self._learners, self._followers = LearnerPool(config, run_dir), FollowerProcesses(config, run_dir)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for processes in (self._learners, self._followers):
                stack.enter_context(processes)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def learner(self, state: RunState) -> Learner:
        """See ``Deployment``."""
        return self._followers.learner(state) or self._learners.learner(state)

    def rollouts(
        self, config: RunConfig, run_dir: Path, roles: Roles, state: RunState, engines: Engines
    ) -> RolloutBackend:
        """See ``Deployment``."""
        return LocalRollouts(config, run_dir, roles, state.policies, engines)

    def usage(self) -> dict[str, Usage]:
        """See ``Deployment``."""
        return {}
