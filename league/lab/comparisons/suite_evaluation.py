"""An evaluation by a suite: its matches are stored as they end, so that a killed evaluation can resume.

A match's index, seeds and seats follow from the plan alone, as in a tournament: a match that was not stored is played
again with the same seeds, and every match counts once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from arena.records import Episode, MatchRequest
from arena.scheduler import IN_FLIGHT, play
from games.common.errors import UsageError
from games.common.files import atomic_write, is_leftover, read_json, remove_leftovers
from games.registry import make_game
from league.config.suite import Suite
from league.lab.comparisons.pairings import Contest, contest_of, pairings
from league.lab.comparisons.until_decided import Until, decide
from league.population.evaluation.head_to_head import (
    MOST_MATCHES,
    Decided,
    Meeting,
    Winner,
    outcomes_of,
    roles_by_game,
    seatings,
)
from league.population.evaluation.tournament import BLOCK, MatchRecorder
from league.population.models.source import model_folder
from league.population.players.engines import Engines
from league.population.players.settings import PlayerSettings
from league.population.results.match_store import STORE_FILE, MatchStore
from league.population.storage.identity import without_suffix
from league.population.storage.lock import LOCK_FILE, run_lock
from league.population.storage.run_dir import Run, find_run
from league.theory.confidence_sequence import looks

PLAN_FILE = "evaluation.json"
_EACH = 2 * MOST_MATCHES  # indices that a pairing may use


class EvaluationPlan(NamedTuple):
    """The settings of an evaluation, from which all its matches follow."""

    name: str  # of the suite
    suite: Suite  # with the opponents and the number of matches that were asked for
    players: tuple[str, ...]  # one, or two to compare
    settings: PlayerSettings = PlayerSettings()  # of the language models among them
    until: Until | None = None  # stop each pairing when it is decided

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {
            "format": "league evaluation",
            "version": 1,
            "name": self.name,
            "suite": self.suite.model_dump(mode="json", exclude={"levels"}),  # which change no match
            "players": list(self.players),
            "settings": self.settings.given(),
            "until": None if self.until is None else self.until._asdict(),
        }


class SuiteEvaluation:
    """A plan with its players resolved. Raises UsageError for a plan that cannot be played."""

    def __init__(self, plan: EvaluationPlan, engines: Engines) -> None:
        if len(set(plan.players)) < len(plan.players):
            raise UsageError(f"{plan.players[0]} cannot be compared with itself. Name two different players, or one.")
        self.plan, self.engines = plan, engines
        possible, self.skipped = pairings(plan.suite, plan.players, engines)
        self.contests = [contest_of(pairing, plan.suite, engines) for pairing in possible]
        if plan.until is not None:
            for each in self.contests:
                if each.spec.competitive:
                    plan.until.check(each.spec)
        self.record = {**plan.to_json(), "hashes": self._hashes()}

    def __len__(self) -> int:
        """Return the number of matches at most."""
        return sum(len(contest.scheduled) for contest in self.contests)

    @property
    def identity(self) -> str:
        """A short hash of the plan and of the players' weights, equal for the same evaluation."""
        return hashlib.sha256(json.dumps(self.record, sort_keys=True).encode()).hexdigest()[:8]

    def play(self, store: MatchStore, on_match: Callable[[Episode], None]) -> None:
        """Play the matches that are not in the store yet, and store each one."""
        stored = store.indices()
        for number, contest in enumerate(self.contests):
            for end in self._ends(contest):
                missing = [m for m in contest.scheduled[:end] if number * _EACH + m.request.index not in stored]
                _play(number, contest, [match.request.index for match in missing], store, on_match)
                if end < len(contest.scheduled) and self.decision(number, store).winner is not Winner.OPEN:
                    break

    def meetings(self, number: int, store: MatchStore) -> list[Meeting]:
        """Return the outcomes of a pairing's matches in their order, as far as they are stored."""
        contest, first = self.contests[number], number * _EACH
        stored = {m.index - first: m.returns for m in store.matches(contest.spec.name) if m.index // _EACH == number}
        ends = [(m.deal, m.seating, stored[m.request.index]) for m in contest.scheduled if m.request.index in stored]
        return outcomes_of(contest.spec, ends)

    def decision(self, number: int, store: MatchStore) -> Decided:
        """Return what a pairing's matches decide, for pairings that stop when they are decided.

        Over all games of two players together, the error is at most 1 − the plan's confidence: each has an equal part.
        """
        until = self.plan.until or Until()
        if len(self.plan.players) == 2:
            until = until._replace(confidence=1.0 - (1.0 - until.confidence) / self.games)
        return decide(self.contests[number].spec, self.meetings(number, store), until)

    @property
    def games(self) -> int:
        """Return how many games there are."""
        return len({contest.pairing.game for contest in self.contests})

    def stops(self, contest: Contest) -> bool:
        """Return whether a pairing stops when it is decided, as games with a winner do."""
        return self.plan.until is not None and contest.spec.competitive

    def _ends(self, contest: Contest) -> Iterator[int]:
        """Yield the numbers of matches after which to look."""
        cycle = len(seatings(contest.spec))
        if self.stops(contest):
            yield from (deals * cycle for deals in looks(len(contest.scheduled) // cycle))
        else:
            yield len(contest.scheduled)

    def _hashes(self) -> dict[str, str | None]:
        """Return a SHA-256 of the weights of each snapshot that plays; None for players without weights here."""
        members = {
            identity
            for contest in self.contests
            for player in contest.players
            for seat in player.members
            for identity, _ in seat
        }
        return {identity: _hash(identity) for identity in sorted(members)}


def _hash(identity: str) -> str | None:
    """Return a SHA-256 of the files, by name, of a snapshot, pretrained model or exploiter; None for other players."""
    kind, _, name = identity.partition(":")
    if kind in ("hf", "best_response"):
        root = Path(model_folder(name)) if kind == "hf" else Path(name).expanduser()
        paths = [root] if root.is_file() else [path for path in sorted(root.rglob("*")) if path.is_file()]
        files = {path.name: _sha256(path) for path in paths}
    else:
        path, at, snapshot = without_suffix(identity).rpartition("@")
        if kind == "openai" or not at or (folder := find_run(path)) is None:
            return None
        files = dict(Run(folder).population.get(snapshot).sha256)
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _play(
    number: int, contest: Contest, indices: list[int], store: MatchStore, on_match: Callable[[Episode], None]
) -> None:
    """Play some of a pairing's matches, every seating with its own role cards."""
    engines = contest.players[0].engines() | contest.players[1].engines()
    labels = [player.label for player in contest.players]

    def with_names(episode: Episode) -> Episode:
        seating = contest.scheduled[episode.request.index - number * _EACH].seating
        return episode._replace(request=episode.request._replace(players=tuple(labels[side] for side in seating)))

    for block in (indices[start : start + BLOCK] for start in range(0, len(indices), BLOCK)):
        for seating in seatings(contest.spec):
            requests: list[MatchRequest] = [
                contest.scheduled[index].request._replace(index=number * _EACH + index, rule="suite")
                for index in block
                if contest.scheduled[index].seating == seating
            ]
            with MatchRecorder(requests, store, with_names, on_match) as recorder:
                play(
                    recorder,
                    roles_of=roles_by_game(contest.players, seating).__getitem__,
                    engine_of=engines.__getitem__,
                    make_game=make_game,
                    in_flight=IN_FLIGHT,
                    on_episode=recorder.on_episode,
                )


@contextmanager
def open_evaluation(folder: Path, evaluation: SuiteEvaluation) -> Iterator[MatchStore]:
    """Lock an evaluation's folder, make it if it is missing, and yield the store of its matches.

    Raises UsageError if another process has locked it, or if it holds something else.
    """
    _check_folder(folder, evaluation.record)
    with run_lock(folder):
        _check_folder(folder, evaluation.record)
        remove_leftovers(folder)
        atomic_write(folder / PLAN_FILE, json.dumps(evaluation.record, indent=1) + "\n")
        with MatchStore(folder / STORE_FILE) as store:
            yield store


def _check_folder(folder: Path, record: dict[str, Any]) -> None:
    """Raise UsageError if a folder holds anything but the evaluation of this record."""
    plan = folder / PLAN_FILE
    if plan.exists():
        try:
            same = read_json(plan) == json.loads(json.dumps(record))
        except ValueError as error:
            raise UsageError(f"{plan} is damaged ({error}). Restore it from a copy.") from error
        if not same:
            raise UsageError(
                f"{folder} holds another evaluation: another suite, players, settings or weights. Choose another "
                "--run-dir, or leave it out."
            )
    elif folder.is_dir() and (
        names := sorted(p.name for p in folder.iterdir() if p.name != LOCK_FILE and not is_leftover(p))
    ):
        raise UsageError(f"{folder} is not empty (it holds {', '.join(names[:3])}). Choose another --run-dir.")
