"""Where a run's matches are played and its policies learn: on this machine, or on a cluster (``league.cluster``).

It is a matter of the session, not of the run: either goes on with what the other began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from arena.records import Episode, MatchRequest, Sampler
from arena.remote.usage import Usage
from arena.scheduler import play
from games.registry import make_game
from league.config import RunConfig
from league.decoupled import Learners
from league.engines import ModelEngine, check_context, make_engine
from league.evaluation import scripted_engines
from league.learning import Learner
from league.player_engines import Engines
from league.run_state import RunState
from league.start import Roles
from league.together import Followers
from learners.policy import Policy

Metrics = dict[str, float]


class Venue(Protocol):
    """Plays a run's matches."""

    @property
    def engine(self) -> ModelEngine:
        """The engine of its language models."""
        ...

    def play(self, requests: Sequence[MatchRequest]) -> list[Episode]:
        """Return the episodes in the order of the requests, played with the weights of this moment."""
        ...

    def metrics(self) -> Metrics:
        """Return what there is to say of how the matches since the last call were played."""
        ...

    def close(self) -> None:
        """End what plays."""
        ...


class Site(Protocol):
    """What a session has to play and to learn with; a context manager that starts and ends it.

    It is entered before anything that a forked process should not inherit: threads, locks, the live view.
    """

    device: str  # that holds the policies of the process that steers the run

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def learner(self, state: RunState) -> Learner:
        """Return where the loop's trajectories go."""
        ...

    def venue(self, config: RunConfig, run_dir: Path, roles: Roles, state: RunState, engines: Engines) -> Venue:
        """Return what plays. Raises UsageError if it cannot play this run."""
        ...

    def usage(self) -> dict[str, Usage]:
        """Return the account of each player behind a server that was not asked by this process's own engines."""
        ...


class Here:
    """Play in this process."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path,
        roles: Roles,
        policies: Mapping[str, Policy],
        engines: Engines | None = None,
    ) -> None:
        self._roles, self._in_flight = roles, config.in_flight
        self._scripted = scripted_players(config, engines or Engines())
        wording = next(iter(policies.values())).lm
        check_context(config, roles, wording)
        adapters = any(config.policy(name).kind == "lora" for name in policies)
        self.engine = make_engine(config, run_dir, wording, adapters=adapters)

    def play(self, requests: Sequence[MatchRequest]) -> list[Episode]:
        """See ``Venue``."""
        return play(
            requests,
            roles_of=self._roles.__getitem__,
            engine_of=lambda player: self._scripted.get(player, self.engine),
            make_game=make_game,
            in_flight=self._in_flight,
        )

    def metrics(self) -> Metrics:
        """See ``Venue``."""
        return {}

    def close(self) -> None:
        """See ``Venue``."""
        self.engine.close()


class ThisMachine:
    """A session without a cluster."""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        self.device = config.model.device
        self._learners, self._followers = Learners(config, run_dir), Followers(config, run_dir)

    def __enter__(self) -> Self:
        with ExitStack() as entered:
            for others in (self._learners, self._followers):
                entered.enter_context(others)
            self._entered = entered.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)

    def learner(self, state: RunState) -> Learner:
        """See ``Site``."""
        return self._followers.learner(state) or self._learners.learner(state)

    def venue(self, config: RunConfig, run_dir: Path, roles: Roles, state: RunState, engines: Engines) -> Venue:
        """See ``Site``."""
        return Here(config, run_dir, roles, state.policies, engines)

    def usage(self) -> dict[str, Usage]:
        """See ``Site``."""
        return {}


def scripted_players(config: RunConfig, engines: Engines) -> dict[str, Sampler]:
    """Return the engines of anchors and guests. Raises UsageError for a name that is no scripted player's."""
    anchors = scripted_engines(config.evaluation.anchors, "evaluation.anchors", engines)
    return anchors | scripted_engines(config.matchmaking.guests, "matchmaking.guests", engines)
