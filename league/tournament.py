"""A round robin of any players in a game: every pair on deals of its own, each deal in every seating.

Every match is stored as it ends, so a tournament that is killed, however, goes on where it stopped. A match's
index, seeds and seats follow from the question alone: it ends with the same matches, bit for bit, as one that
was never stopped, and two players with the same seed play the same matches in every tournament.
"""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from arena.records import Episode, MatchRequest
from arena.scheduler import play
from games.errors import UsageError
from games.files import atomic_write, is_leftover, remove_leftovers
from games.registry import make_game
from games.seeds import derive_seed
from games.spec import GameSpec
from league.head_to_head import IN_FLIGHT, schedule, seatings
from league.lock import LOCK_FILE, run_lock
from league.match_store import STORE_FILE, MatchStore
from league.player_engines import Engines
from league.players import Player, resolve
from roles.role import Role

QUESTION_FILE = "tournament.json"
HEADER = {"format": "league tournament", "version": 1}
BLOCK = 8 * IN_FLIGHT  # matches planned at once: the plan of a large tournament would not fit into memory


class Question(NamedTuple):
    """What a tournament is to find out."""

    game: str
    players: tuple[str, ...]  # as a person writes them, all different
    matches: int  # at least this many for each pair
    seed: int


class Tournament:
    """A question, with its players at the table. Raises UsageError for one that cannot be asked."""

    def __init__(self, question: Question, engines: Engines | None = None) -> None:
        names = question.players
        if len(set(names)) < max(2, len(names)):
            raise UsageError(f"A tournament needs two or more different players, not {', '.join(names) or 'none'}.")
        self.question = question
        self.spec: GameSpec = make_game(question.game).spec
        if self.spec.seats < 2:
            raise UsageError(f"{self.spec.name} has one seat, so players cannot meet in it.")
        self.engines = engines or Engines()
        self.players = [resolve(name, self.spec, self.engines) for name in names]
        self._pairs = list(itertools.combinations(self.players, 2))
        self._seatings = seatings(self.spec.seats)
        self._matches_of_a_pair = len(schedule(self._pairs[0], question.matches, seed=0))

    def __len__(self) -> int:
        """Return how many matches there are."""
        return len(self._pairs) * self._matches_of_a_pair

    def stands_for(self) -> dict[str, Any]:
        """Return who plays under each name: ids and weights by seat, as JSON data."""
        return {player.label: [[list(one) for one in seat] for seat in player.members] for player in self.players}

    def play(self, store: MatchStore, on_match: Callable[[Episode], None]) -> None:
        """Play the matches that are not in the store, and store each when it has ended and ``on_match`` has seen it."""
        engines = {id_: player.engine for player in self.players for seat in player.members for id_, _ in seat}
        missing = self._missing(store.indices())
        while block := list(itertools.islice(missing, BLOCK)):
            by_cards: dict[tuple[Role, ...], list[MatchRequest]] = {}
            for request in block:
                by_cards.setdefault(self._cards(request.index), []).append(request)
            for cards, requests in by_cards.items():
                with _Recorder(requests, store, self._named, on_match) as recorder:
                    play(
                        recorder,
                        roles_of={self.spec.name: cards}.__getitem__,
                        engine_of=engines.__getitem__,
                        make_game=make_game,
                        in_flight=IN_FLIGHT,
                        on_episode=recorder.ended,
                    )

    def _missing(self, done: set[int]) -> Iterator[MatchRequest]:
        """Yield the matches that are not done, pair by pair. No two pairs share their luck."""
        for number, (a, b) in enumerate(self._pairs):
            first = number * self._matches_of_a_pair
            if not done.issuperset(range(first, first + self._matches_of_a_pair)):
                seed = derive_seed(self.question.seed, "pair", a.label, b.label)
                for match in schedule((a, b), self.question.matches, seed):
                    if first + match.request.index not in done:
                        yield match.request._replace(index=first + match.request.index, rule="tournament")

    def _seated(self, index: int) -> list[Player]:
        """Return who sits where in a match."""  # [seats]
        number, own = divmod(index, self._matches_of_a_pair)
        return [self._pairs[number][who] for who in self._seatings[own % len(self._seatings)]]

    def _cards(self, index: int) -> tuple[Role, ...]:
        """Return the role cards of a match: every player sits down with its own."""  # [seats]
        return tuple(player.roles[seat] for seat, player in enumerate(self._seated(index)))

    def _named(self, episode: Episode) -> Episode:
        """Return a match under the players' names: which member of a mixture was drawn does not matter."""
        names = tuple(player.label for player in self._seated(episode.request.index))
        return episode._replace(request=episode.request._replace(players=names))


class _Recorder(Iterator[MatchRequest]):
    """Hands out matches and stores those that have ended, while entered.

    The scheduler asks for new matches before it asks the players: no match that has ended waits until they have
    answered. To store a round's matches costs no time that could be measured.
    """

    def __init__(
        self,
        requests: Iterable[MatchRequest],
        store: MatchStore,
        named: Callable[[Episode], Episode],
        on_match: Callable[[Episode], None],
    ) -> None:
        self._requests = iter(requests)
        self._store, self._named, self._on_match = store, named, on_match
        self._unstored: list[Episode] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._put()

    def __next__(self) -> MatchRequest:
        self._put()
        return next(self._requests)

    def ended(self, episode: Episode) -> None:
        """Take note of a match that has ended."""
        self._unstored.append(self._named(episode))
        self._on_match(episode)

    def _put(self) -> None:
        """Store what has ended. If that is interrupted it may be done twice, which changes nothing."""
        if self._unstored:
            self._store.add(self._unstored)
            self._unstored = []


@contextmanager
def opened(folder: Path, tournament: Tournament) -> Iterator[MatchStore]:
    """Hold a tournament's folder, made if it is missing, and give the store of its matches.

    Raises UsageError if another process holds it, if it belongs to another question or to something else,
    or if a name stands for another player than when the tournament began.
    """
    with run_lock(folder):
        asked = {**HEADER, **tournament.question._asdict(), "stands_for": tournament.stands_for()}
        _check(folder, json.loads(json.dumps(asked)))
        remove_leftovers(folder)
        if not (folder / QUESTION_FILE).exists():
            atomic_write(folder / QUESTION_FILE, json.dumps(asked, indent=1) + "\n")
        with MatchStore(folder / STORE_FILE) as store:
            yield store


def read_question(folder: Path) -> Question:
    """Return what the tournament in a folder asks. Raises UsageError where there is none, or it is damaged."""
    found = _read(folder)
    return Question(found["game"], tuple(found["players"]), found["matches"], found["seed"])


def _check(folder: Path, asked: dict[str, Any]) -> None:
    """Raise UsageError if a folder does not belong to a question."""
    if not (folder / QUESTION_FILE).exists():
        taken = sorted(path.name for path in folder.iterdir() if path.name != LOCK_FILE and not is_leftover(path))
        if taken:
            raise UsageError(f"{folder} is not empty (it holds {', '.join(taken[:3])}). Choose another --run-dir.")
        return
    found = _read(folder)
    for key in Question._fields:
        if found[key] != asked[key]:
            raise UsageError(
                f"{folder} holds another tournament ({key}: {_told(found[key])}; now asked for: {_told(asked[key])}). "
                "Choose another --run-dir, or go on with that one: "
                f"league tournament --resume --run-dir {shlex.quote(str(folder))}"
            )
    for name, members in asked["stands_for"].items():
        if found["stands_for"][name] != members:
            raise UsageError(
                f"{name} is not the player any more that it was when the tournament in {folder} began: it was "
                f"{_one(found['stands_for'][name])}, and is {_one(members)}. Begin a new one, with another --run-dir; "
                "a snapshot named as RUN@SNAPSHOT never changes."
            )


def _read(folder: Path) -> dict[str, Any]:
    """Return a folder's question file."""
    path = folder / QUESTION_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{folder} holds no tournament: it has no {QUESTION_FILE}.") from None
    except ValueError as error:
        raise UsageError(f"{path} is damaged ({error}). Restore it from a copy.") from error
    keys = {*HEADER, *Question._fields, "stands_for"}
    if not isinstance(found, dict) or set(found) != keys or {**found, **HEADER} != found:
        raise UsageError(
            f"{path} is not a tournament's, or one of another version: it should hold {', '.join(sorted(keys))}."
        )
    return found


def _told(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _one(members: list[list[tuple[str, float]]]) -> str:
    """Return whom a name stands for, in a word or two: the first seat's likeliest member."""
    return max(members[0], key=lambda member: member[1])[0]
