"""``team_race``: two teams of a planner and a worker race for the answer to the same question.

The question is the sum of ``terms`` cells of a table of ``cells`` numbers from 0 to ``most``, drawn. A planner sees the
question, "A + C + D", but no number; a worker sees the numbers, but no question. In each of ``rounds`` rounds each
planner, unseen by the other team, asks its worker for the sum of up to ``together`` cells, or answers the question;
each worker that is asked says a number. The team that is right in an earlier round than the other wins: its seats earn
1 and the others lose 1. A team that answers wrong is out. All earn 0 if both are right in the same round, or none is.

So a team must be quick and right: a planner asks for as many cells of the question as it may, and a worker adds them.
The game is the same for both teams, so its value is 0. The seats are a planner and its worker, then the other team's.
``team_race(cells=2,terms=1,most=1,together=1,rounds=2)`` is small enough for exact values.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping

from games.common.errors import UsageError
from games.native.dealt import DealtGame
from games.native.names import game_name
from games.spec import GameSpec, Utility

CELLS = "ABCDEFGH"
TEAMS = ((0, 1), (2, 3))  # seats: a planner and its worker
ASK, ANSWER = "ask ", "answer "


class TeamRace(DealtGame):
    """One match of ``team_race``."""

    _numbers: tuple[int, ...]  # of the cells, as far as drawn
    _question: tuple[int, ...] | None  # indices of cells, ascending
    _moves: tuple[tuple[str, ...], ...]  # of each seat, in order
    _round: int  # rounds that are over

    def __init__(self, cells: int = 6, terms: int = 4, most: int = 9, together: int = 2, rounds: int = 6) -> None:
        settings = {"cells": cells, "terms": terms, "most": most, "together": together, "rounds": rounds}
        name = game_name("team_race", TeamRace, **settings)
        if not (1 <= terms <= cells <= len(CELLS) and 1 <= most <= 99 and 1 <= together <= 3 and 2 <= rounds <= 20):
            raise UsageError(
                f"There is no game {name!r}: cells is 1 to {len(CELLS)}, terms 1 to cells, most 1 to 99, together 1 to "
                "3, and rounds 2 to 20."
            )
        self._cells, self._terms, self._most, self._rounds = cells, terms, most, rounds
        sizes = range(1, min(together, cells) + 1)
        self._asks = tuple(_sum(part) for size in sizes for part in itertools.combinations(range(cells), size))
        self._answers = tuple(f"{ANSWER}{number}" for number in range(terms * most + 1))
        self._told = tuple(str(number) for number in range(sizes[-1] * most + 1))
        self.spec = GameSpec(
            name=name,
            seats=4,
            num_actions=len(self._asks) + len(self._answers) + len(self._told),
            max_turns=4 * rounds,
            min_return=-1.0,
            max_return=1.0,
            utility=Utility.ZERO_SUM,
            perfect_information=False,
            has_chance=True,
            teams=TEAMS,
        )
        self.reset(0)

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the numbers that the next cell may have, and then the questions."""
        if len(self._numbers) < self._cells:
            return tuple([(str(number), 1.0 / (self._most + 1)) for number in range(self._most + 1)])
        if self._question is not None:
            return ()
        parts = itertools.combinations(range(self._cells), self._terms)
        return tuple([(_sum(part), 1.0 / math.comb(self._cells, self._terms)) for part in parts])

    def apply_chance(self, outcome: str) -> None:
        """Draw the number of a cell, or the question."""
        if len(self._numbers) < self._cells:
            self._numbers = (*self._numbers, int(outcome))
        else:
            self._question = _indices(outcome)

    def to_act(self) -> int | None:
        """Return in each round one team's planner, then its worker if it was asked, and then the other team's."""
        if self._question is None or self._is_over():
            return None
        for planner, worker in TEAMS:
            if self._is_out(planner, self._round):
                continue
            if len(self._moves[planner]) == self._round:
                return planner
            if len(self._moves[worker]) < len(self._asked(planner)):
                return worker
        return None

    def observe(self, seat: int) -> str:
        """Return the question or the table, what the team has asked and said, and the round."""
        team = seat // 2
        planner, worker = TEAMS[team]
        if seat == planner:
            lines = [f"Question: {_sum(self._question or ())}"]
        else:
            lines = [", ".join(f"{CELLS[cell]} = {number}" for cell, number in enumerate(self._numbers))]
        replies = itertools.zip_longest(self._asked(planner), self._moves[worker], fillvalue="?")
        lines += [f"{asked} = {said}" for asked, said in replies]
        if self._is_over():
            first, second = (self._ended(planner) for planner, _ in TEAMS)
            return "\n".join([*lines, f"Your team {(first, second)[team]}; the other {(second, first)[team]}."])
        if self._is_out(TEAMS[1 - team][0], self._round):
            lines.append("The other team answered wrong and is out.")
        return "\n".join([*lines, f"Round {self._round + 1} of {self._rounds}."])

    def is_public(self, line: str) -> bool:
        """Return whether a line says the same to all: the round, and to one team alone what it knows."""
        return line.startswith("Round ")

    def information_state(self, seat: int) -> str:
        """Return the seat, what it sees, and a planner's own answer."""
        answered = [move for move in self._moves[seat] if move.startswith(ANSWER)]
        return f"{seat} {answered} {self.observe(seat)}"

    def returns(self) -> tuple[float, ...]:
        """Return what the match paid; zeros before its end."""
        right = [self._right_in(planner) for planner, _ in TEAMS]
        if not self._is_over() or right[0] == right[1]:
            return (0.0,) * 4
        first = 1.0 if right[0] < right[1] else -1.0
        return (first, first, -first, -first)

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, ``poor`` and ``random``.

        A good planner asks for as many cells at a time as it may, and answers when it knows all; a poor one asks for
        one at a time. A good worker adds; a poor one always says 0.
        """
        return {
            "good": lambda _rng: self._scripted(well=True),
            "poor": lambda _rng: self._scripted(well=False),
            "random": self.random_action,
        }

    def _begin(self) -> None:
        self._numbers, self._question, self._moves, self._round = (), None, ((),) * 4, 0

    def _options(self) -> list[tuple[str, int]]:
        seat, first = self.to_act(), len(self._asks) + len(self._answers)
        if seat is None:
            return []
        if seat % 2:
            return [(said, first + number) for number, said in enumerate(self._told)]
        planned = (*(f"{ASK}{part}" for part in self._asks), *self._answers)
        return [(label, number) for number, label in enumerate(planned)]

    def _play(self, action: str) -> None:
        seat = self.to_act()
        self._moves = tuple([(*moves, action) if other == seat else moves for other, moves in enumerate(self._moves)])
        if self.to_act() is None and not self._is_over():
            self._round += 1

    def _asked(self, planner: int) -> tuple[str, ...]:
        return tuple([move.removeprefix(ASK) for move in self._moves[planner] if move.startswith(ASK)])

    def _answered_in(self, planner: int) -> int | None:
        """Return the round, from 0, in which a planner has answered."""
        last = self._moves[planner][-1:]
        return len(self._moves[planner]) - 1 if last and last[0].startswith(ANSWER) else None

    def _right_in(self, planner: int) -> float:
        """Return the round in which a planner was right; infinity where it was not."""
        number = self._answered_in(planner)
        if number is None:
            return math.inf
        answer = int(self._moves[planner][-1].removeprefix(ANSWER))
        return number if answer == sum(self._numbers[cell] for cell in self._question or ()) else math.inf

    def _is_out(self, planner: int, number: int) -> bool:
        """Return whether a planner has answered before a round."""
        answered = self._answered_in(planner)
        return answered is not None and answered < number

    def _is_over(self) -> bool:
        """Return whether a round has ended in which a team was right, or no team is left, or no round."""
        ended = all(
            self._is_out(planner, self._round + 1)
            or (len(self._moves[planner]) > self._round and len(self._moves[worker]) == len(self._asked(planner)))
            for planner, worker in TEAMS
        )
        if not ended:
            return False
        answered = [self._answered_in(planner) for planner, _ in TEAMS]
        right = any(self._right_in(planner) < math.inf for planner, _ in TEAMS)
        return right or None not in answered or self._round + 1 == self._rounds

    def _ended(self, planner: int) -> str:
        number = self._answered_in(planner)
        if number is None:
            return "gave no answer"
        how = "right" if self._right_in(planner) < math.inf else "wrong"
        return f"was {how} in round {number + 1}"

    def _scripted(self, well: bool) -> str:
        seat = self.to_act()
        assert seat is not None
        planner = seat - seat % 2
        if seat % 2:
            asked = _indices(self._asked(planner)[-1])
            return str(sum(self._numbers[cell] for cell in asked) if well else 0)
        asked_for = [_indices(part) for part in self._asked(planner)]
        known = set(itertools.chain(*asked_for))
        left = [cell for cell in self._question or () if cell not in known]
        if not left:
            total = sum(int(said) for said in self._moves[planner + 1])
            return f"{ANSWER}{min(total, self._terms * self._most)}"
        size = min(max(len(_indices(part)) for part in self._asks), len(left)) if well else 1
        return f"{ASK}{_sum(tuple(left[:size]))}"


def _sum(cells: tuple[int, ...]) -> str:
    return " + ".join(CELLS[cell] for cell in cells)


def _indices(text: str) -> tuple[int, ...]:
    return tuple([CELLS.index(cell) for cell in text.split(" + ")])
