"""The probes of one match: positions are noted as it is played, and questions are asked when it is over.

So nothing that is played can depend on a probe: no reply waits for one, and no random number is drawn. Positions are
those in which a seat is asked for a reply for the first time, and the last one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from arena.errors import one_for_each
from arena.records import Belief, Believing, ReplyRequest
from games.abilities import Answers, KnowsAnswers
from games.spec import Game
from roles.probes import AskedWhen, Probe
from roles.replies import probed
from roles.role import Role

EngineOf = Callable[[str], Any]


class _Question(NamedTuple):
    """A probe of one seat in one position."""

    probe: Probe
    seat: int
    after: int  # turns
    answers: Answers
    request: ReplyRequest


class ProbeLog:
    """The questions of one match."""

    def __init__(self, roles: Sequence[Role], players: Sequence[str]) -> None:
        """``roles`` and ``players`` are by seat.  # [seats]"""
        self._asked = [(seat, role, probe) for seat, role in enumerate(roles) for probe in role.probes]
        self._players = tuple(players)
        self._turns = 0
        self._questions: list[_Question] = []

    def see(self, request: ReplyRequest) -> None:
        """Note the position of a turn's first request; it is called with every request of the match."""
        if not request.refusals and not request.probe:
            self._note(request.game, self._turns, first=self._turns == 0)
        self._turns += 1

    def end(self, game: Game, turns: int) -> None:
        """Note the last position, after this many turns."""
        self._note(game, turns, first=True)

    def _note(self, game: Game, turns: int, *, first: bool) -> None:
        """Note a position; ``first`` where it is the first one, or the last."""
        asked = [one for one in self._asked if first or one[2].when is AskedWhen.TURNS]
        if not asked:
            return
        position, rng = game.copy(), random.Random(0)
        for seat, role, probe in asked:
            answers = _answers(position, probe, seat)
            if len(answers.possible) > 1:
                asking, player = probed(role, probe), self._players[seat]
                request = ReplyRequest(player, asking, position, position.observe(seat), answers.possible, (), rng)
                self._questions.append(_Question(probe, seat, turns, answers, request._replace(probe=probe.name)))

    def questions(self, weights: Mapping[str, str] | None) -> list[_Question]:
        """Return what is to be asked; ``weights`` are ids of pinned weights, by player."""
        pinned = weights or {}
        return [
            one._replace(request=one.request._replace(player=pinned.get(one.request.player, one.request.player)))
            for one in self._questions
        ]

    def engines(self, engine_of: EngineOf) -> list[Any]:
        """Return the engine of each question's player."""
        return [engine_of(self._players[one.seat]) for one in self._questions]


Weights = Mapping[str, str] | None  # ids of pinned weights, by player


def ask(logs: Sequence[tuple[ProbeLog, Weights]], engine_of: EngineOf) -> list[tuple[Belief, ...]]:
    """Ask all questions of matches that are over, each engine once; return each match's answers in their order.

    Of a player that cannot be asked there is one record for each of its probes, without probabilities. Raises
    EngineError, with engine and player named, if an engine fails.
    """
    by_match = [log.questions(weights) for log, weights in logs]
    questions = [one for mine in by_match for one in mine]
    engines = [engine for log, _ in logs for engine in log.engines(engine_of)]
    answers: dict[int, tuple[float, ...] | None] = {}
    for engine in {id(engine): engine for engine in engines}.values():
        if isinstance(engine, Believing):
            mine = [number for number, own in enumerate(engines) if own is engine]
            requests = [questions[number].request for number in mine]
            beliefs = one_for_each(engine, engine.beliefs, requests, asked="probes of", given="beliefs for")
            answers |= dict(zip(mine, beliefs, strict=True))
    numbers = count()
    return [tuple(_told(of_match, [answers.get(next(numbers)) for _ in of_match])) for of_match in by_match]


def _told(questions: Sequence[_Question], answers: Sequence[tuple[float, ...] | None]) -> list[Belief]:
    """Return the beliefs; of a player that cannot be asked only the first of each probe."""
    beliefs, silent = [], set[tuple[str, int]]()
    for one, found in zip(questions, answers, strict=True):
        key = one.probe.name, one.seat
        if found is None and key in silent:
            continue
        if found is None:
            silent.add(key)
        total = sum(found or ()) or 1.0
        shares = tuple([share / total for share in found or ()])
        names = one.answers
        beliefs.append(
            Belief(one.probe.name, one.seat, one.after, one.request.observation, names.possible, names.true, shares)
        )
    return beliefs


def _answers(position: Game, probe: Probe, seat: int) -> Answers:
    """Return a probe's answers in a position: the card's, if it lists some, and which the game says are right."""
    known = position.probe_answers(probe.name, seat) if isinstance(position, KnowsAnswers) else Answers()
    if not probe.answers:
        return known
    return Answers(probe.answers, tuple([answer for answer in known.true if answer in probe.answers]))
