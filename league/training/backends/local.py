"""The backend of one machine: this process plays the matches, and local processes learn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from arena.lm.language_model import LanguageModel
from arena.programs.sampler import Program
from arena.records import Episode, MatchRequest
from arena.remote.usage import Usage
from arena.scheduler import Engine, play, rounds
from games.common.errors import UsageError
from games.registry import make_game
from league.config.context import RunContext
from league.population.models.base_model import verified_base
from league.population.players.engines import Engines
from league.population.players.fixed import fixed_players
from league.population.players.machine import check_processes
from league.population.players.model_engine import ModelEngine, ModelSource, check_context, engine_kind, slots_of
from league.population.players.outside import anchors_and_guests
from league.training.backends.engines_by_model import EnginesByModel, ModelsEngine
from league.training.backends.programs import RunPrograms
from league.training.checkpoints.run_state import RunState
from league.training.interfaces import Learner, Metrics, RolloutBackend
from league.training.learning.data_parallel import FollowerProcesses
from league.training.learning.learner_pool import LearnerPool
from learners.update.policy import Policy
from roles.replies import unmasked
from roles.role import Role

PATIENCE = 0.02  # seconds that a stream waits for a slow reply before it looks whether a learner is done


class LocalRollouts:
    """A ``RolloutBackend`` that plays in this process."""

    def __init__(
        self,
        context: RunContext,
        policies: Mapping[str, Policy],
        engines: Engines | None = None,
        program: Program | None = None,
    ) -> None:
        config, engines = context.config, engines or Engines()
        self.fixed, self._in_flight = fixed_players(context.roles, engines), config.in_flight
        self._outside = anchors_and_guests(config, engines) | dict(self.fixed.engines)
        engines_by_model = [
            ModelsEngine(
                _engine_on(context, group, policies[group[0]].lm),
                tuple(policies[name].lm for name in group),
            )
            for group in config.by_model(policies).values()
        ]
        self.engine: ModelEngine = (
            EnginesByModel(engines_by_model) if len(engines_by_model) > 1 else engines_by_model[0].engine
        )
        self._programs = _programs(context, policies, program)
        self._with_programs = self._programs and self._programs.sampler(self.engine)
        self._asked = config.programs.roles
        self._slots = slots_of(config, policies, next(iter(policies.values())).lm.model.config)

    @property
    def notes(self) -> Sequence[str]:
        """See ``RolloutBackend``."""
        told = [self._slots.note()] if self._slots else []
        return [*told, self._programs.note] if self._programs and self._programs.note else told

    def play(self, requests: Sequence[MatchRequest]) -> list[Episode]:
        """See ``RolloutBackend``."""
        return play(
            requests,
            roles_of=self._roles_of,
            engine_of=self._engine_of,
            make_game=make_game,
            in_flight=self._in_flight,
            asks=_asks,
        )

    def flow(self, requests: Iterator[MatchRequest]) -> Iterator[Sequence[Episode]]:
        """See ``RolloutBackend``."""
        played = rounds(
            requests,
            roles_of=self._roles_of,
            engine_of=self._engine_of,
            make_game=make_game,
            in_flight=self._in_flight,
            asks=_asks,
            patience=PATIENCE,
        )
        for ended in played:
            yield list(ended.values())

    def metrics(self) -> Metrics:
        """See ``RolloutBackend``."""
        return self._programs.metrics() if self._programs else {}

    def close(self) -> None:
        """See ``RolloutBackend``."""
        if self._programs:
            self._programs.close()
        self.engine.close()

    def _roles_of(self, game: str) -> tuple[Role, ...]:
        """Return a game's roles as they are played: a program may not answer, so its replies are not masked."""
        roles = self.fixed.roles[game]
        return tuple(unmasked(role) if f"{game}/{role.name}" in self._asked else role for role in roles)

    def _engine_of(self, player: str) -> Engine:
        return self._outside.get(player) or self._with_programs or self._model_engine(player)

    def _model_engine(self, player: str) -> ModelEngine:
        return self.engine.engine_of(player) if isinstance(self.engine, EnginesByModel) else self.engine


def _asks(request: MatchRequest) -> bool:
    """Return whether a match's probes are asked: not in matches that only measure."""
    return any(request.trained)


def _engine_on(context: RunContext, policies: Sequence[str], tokenizer: LanguageModel) -> ModelEngine:
    """Return an engine for policies on one base model."""
    config = context.config
    check_context(config, context.roles, tokenizer)
    adapted = [name for name in policies if config.policy(name).adapted]
    return engine_kind(config).make(
        config.for_policy(policies[0]),
        lambda: ModelSource(tokenizer, verified_base(config, context.run_dir, adapted[0]) if adapted else None),
    )


def _programs(context: RunContext, policies: Mapping[str, Policy], program: Program | None) -> RunPrograms | None:
    """Return the run's programs; None where they take no role."""
    if context.config.programs.roles:
        lms = {policy.live_id: policy.lm for policy in policies.values()}
        return RunPrograms(context.config, context.run_dir, lms, program)
    return None


class LocalDeployment:
    """A ``Deployment`` on this machine. ``program`` plays ``programs.roles``, instead of outside programs.

    Raises UsageError for a program without a role.
    """

    def __init__(self, context: RunContext, program: Program | None = None) -> None:
        check_processes(context.config, context.roles)
        if program is not None and not context.config.programs.roles:
            raise UsageError(
                "A program was given, but programs.roles names no role for it. Set it, for example "
                "programs.roles=['kuhn_poker/first']."
            )
        self.on_cpu, self._program = False, program
        self._learners, self._followers = LearnerPool(context), FollowerProcesses(context)

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

    def rollouts(self, context: RunContext, state: RunState, engines: Engines) -> RolloutBackend:
        """See ``Deployment``."""
        return LocalRollouts(context, state.policies, engines, self._program)

    def usage(self) -> dict[str, Usage]:
        """See ``Deployment``."""
        return {}
