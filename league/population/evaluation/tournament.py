"""Tournaments: a round robin in which every pair plays its own deals, each deal in every seating.

Every match is stored as soon as it ends, so a tournament that is killed at any moment can be resumed. A match's index,
seeds and seats follow from the plan alone: a resumed tournament ends with the same matches, bit for bit, as one that
was never stopped, and two players with the same seed play the same matches in every tournament.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from arena.records import Episode, MatchRequest
from arena.scheduler import IN_FLIGHT, play
from games.common import plugins
from games.common.errors import UsageError
from games.common.files import atomic_write, remove_leftovers
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import GameSpec
from league.population.evaluation.head_to_head import schedule, seatings
from league.population.evaluation.tournament_plan import HEADER, TournamentPlan, check_folder
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.population.results.match_store import STORE_FILE, MatchStore
from league.population.storage.lock import run_lock
from league.population.storage.run_dir import PLAN_FILE
from roles.role import Role

BLOCK = 8 * IN_FLIGHT  # matches scheduled at once: those of a large tournament would not fit into memory


class Tournament:
    """A plan with its players resolved. Raises UsageError for a plan that cannot be played."""

    def __init__(self, plan: TournamentPlan, engines: Engines | None = None) -> None:
        names = plan.players
        if len(set(names)) < max(2, len(names)):
            raise UsageError(f"A tournament needs two or more different players, not {', '.join(names) or 'none'}.")
        self.plan = plan
        self.spec: GameSpec = make_game(plan.game).spec
        if self.spec.seats < 2:
            raise UsageError(f"{self.spec.name} has one seat, so players cannot meet.")
        self.engines = engines or Engines(plan.settings)
        self.players = [resolve(name, self.spec, self.engines) for name in names]
        self.engines.check_settings(names)
        self._pairs = list(itertools.combinations(self.players, 2))
        self._seatings = seatings(self.spec)
        self._matches_per_pair = len(schedule(self._pairs[0], plan.matches, seed=0))

    def __len__(self) -> int:
        """Return how many matches there are."""
        return len(self._pairs) * self._matches_per_pair

    def members_by_name(self) -> dict[str, Any]:
        """Return the members of each player: their ids and weights by seat, as JSON data."""
        return {
            player.label: [[list(member) for member in members] for members in player.members]
            for player in self.players
        }

    def play(self, store: MatchStore, on_match: Callable[[Episode], None]) -> None:
        """Play the matches that are not in the store yet; store each one after ``on_match`` was called with it."""
        engines = {identity: engine for player in self.players for identity, engine in player.engines().items()}
        missing = self._missing(store.indices())
        while block := list(itertools.islice(missing, BLOCK)):
            by_roles: dict[tuple[Role, ...], list[MatchRequest]] = {}
            for request in block:
                by_roles.setdefault(self._roles(request.index), []).append(request)
            for roles, requests in by_roles.items():
                with MatchRecorder(requests, store, self._with_names, on_match) as recorder:
                    play(
                        recorder,
                        roles_of={self.spec.name: roles}.__getitem__,
                        engine_of=engines.__getitem__,
                        make_game=make_game,
                        in_flight=IN_FLIGHT,
                        on_episode=recorder.on_episode,
                    )

    def _missing(self, done: set[int]) -> Iterator[MatchRequest]:
        """Yield the matches that are not done, pair by pair; each pair has its own seeds."""
        for number, (a, b) in enumerate(self._pairs):
            first = number * self._matches_per_pair
            if not done.issuperset(range(first, first + self._matches_per_pair)):
                seed = derive_seed(self.plan.seed, "pair", a.label, b.label)
                for match in schedule((a, b), self.plan.matches, seed):
                    if first + match.request.index not in done:
                        yield match.request._replace(index=first + match.request.index, rule="tournament")

    def _seated_players(self, index: int) -> list[Player]:
        """Return the players of a match by seat."""  # [seats]
        pair, match = divmod(index, self._matches_per_pair)
        return [self._pairs[pair][side] for side in self._seatings[match % len(self._seatings)]]

    def _roles(self, index: int) -> tuple[Role, ...]:
        """Return the role cards of a match, every player's own."""  # [seats]
        return tuple(player.roles[seat] for seat, player in enumerate(self._seated_players(index)))

    def _with_names(self, episode: Episode) -> Episode:
        """Return a match with the names of the players in place of the ids of their members."""
        names = tuple(player.label for player in self._seated_players(episode.request.index))
        return episode._replace(request=episode.request._replace(players=names))


class MatchRecorder(Iterator[MatchRequest]):
    """Yields match requests to the scheduler and stores the matches that have ended, while it is entered.

    The scheduler takes new requests before it samples replies, so storing on each request stores every match that has
    ended before the engines are called again. The time that this takes is negligible.
    """

    def __init__(
        self,
        requests: Iterable[MatchRequest],
        store: MatchStore,
        with_names: Callable[[Episode], Episode],
        on_match: Callable[[Episode], None],
    ) -> None:
        self._requests = iter(requests)
        self._store, self._with_names, self._on_match = store, with_names, on_match
        self._unstored: list[Episode] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flush()

    def __next__(self) -> MatchRequest:
        self._flush()
        return next(self._requests)

    def on_episode(self, episode: Episode) -> None:
        """Buffer a match that has ended."""
        self._unstored.append(self._with_names(episode))
        self._on_match(episode)

    def _flush(self) -> None:
        """Store the buffered matches. After an interrupt some may be stored twice, which changes nothing."""
        if self._unstored:
            self._store.add(self._unstored)
            self._unstored = []


@contextmanager
def open_tournament(folder: Path, tournament: Tournament) -> Iterator[MatchStore]:
    """Lock a tournament's folder, make it if it is missing, and yield the store of its matches.

    Raises UsageError if another process has locked it, if it holds another tournament or something else,
    or if a name refers to another player than when the tournament began.
    """
    record = {
        **HEADER,
        **tournament.plan.to_json(),
        "plugins": plugins.required(),
        "stands_for": tournament.members_by_name(),
    }
    if folder.is_dir():
        check_folder(folder, json.loads(json.dumps(record)))  # before a lock file is left in a foreign folder
    with run_lock(folder):
        check_folder(folder, json.loads(json.dumps(record)))
        remove_leftovers(folder)
        if not (folder / PLAN_FILE).exists():
            atomic_write(folder / PLAN_FILE, json.dumps(record, indent=1) + "\n")
        with MatchStore(folder / STORE_FILE) as store:
            yield store
