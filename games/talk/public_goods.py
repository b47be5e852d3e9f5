"""``public_goods``: everyone gets tokens, gives some of them to a pot, and the pot grows and is shared equally.

In each of ``rounds`` rounds each of ``seats`` seats gets ``tokens`` tokens and gives any number of them, unseen; then
all see what each gave. The pot is multiplied by ``multiplier`` hundredths and shared equally, so that a seat earns

    tokens − given + (multiplier / 100) / seats · (all that was given)

A token given brings its giver ``marginal_return = multiplier / 100 / seats``. Below 1 to give nothing is best whatever
the others do, and so is the only equilibrium; above 100 hundredths all giving all is best for all together (Ledyard
1995; the linear game of Isaac and Walker 1988).

With ``talk=1`` all say something in turn before each round, in their own words, and with ``talk=2`` from a list of
promises, none of which binds; with ``talk=0`` they say nothing. With ``recall`` above 0 seats are shown only this many
past rounds, and not how many there were. ``public_goods(seats=2,rounds=2,tokens=1,multiplier=150,talk=0)`` and the same
with ``rounds=1,talk=2`` are small enough for exact values.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

from games.common.errors import UsageError
from games.native.dealt import DealtGame
from games.native.names import game_name
from games.spec import Choices, FreeText, GameSpec, Utility
from games.talk.conversation import Conversation, addresses_all, speech

MOST_CHARACTERS = 200  # of what is said in a turn
SILENT, WORDS, PROMISES = range(3)  # values of ``talk``
GIVE, PROMISE = "give ", "I will give "


class PublicGoods(DealtGame):
    """One match of ``public_goods``."""

    _given: tuple[int, ...]  # tokens, seat by seat and round by round
    _said: tuple[str, ...]  # utterances, likewise

    def __init__(
        self,
        seats: int = 4,
        rounds: int = 5,
        tokens: int = 4,
        multiplier: int = 160,
        talk: int = WORDS,
        recall: int = 0,
    ) -> None:
        settings = {"seats": seats, "rounds": rounds, "tokens": tokens, "multiplier": multiplier}
        name = game_name("public_goods", PublicGoods, **settings, talk=talk, recall=recall)
        fits = 2 <= seats <= 16 and 1 <= rounds <= 100 and 1 <= tokens <= 100 and recall <= rounds
        if not fits or not 1 <= multiplier <= 10_000 or talk not in (SILENT, WORDS, PROMISES):
            raise UsageError(
                f"There is no game {name!r}: seats is 2 to 16, rounds 1 to 100, tokens 1 to 100, multiplier 1 to 10000 "
                "(hundredths), talk 0 (none), 1 (words) or 2 (promises from a list), and recall 0 (all rounds) or up "
                "to rounds."
            )
        self._rounds, self._tokens, self._talk, self._recall = rounds, tokens, talk, recall
        self._growth, self.marginal_return = multiplier / 100, multiplier / 100 / seats
        best = self.marginal_return * tokens * (seats - 1) + max(1.0, self.marginal_return) * tokens
        self.spec = GameSpec(
            name=name,
            seats=seats,
            num_actions=0 if talk == WORDS else (tokens + 1) * (2 if talk else 1),
            max_turns=seats * rounds * (2 if talk else 1),
            min_return=rounds * tokens * min(1.0, self.marginal_return),
            max_return=rounds * best,
            utility=Utility.GENERAL_SUM,
            perfect_information=False,
            has_chance=False,
            free_text=talk == WORDS,
            suite="talk" if talk else "dilemmas",
        )
        self.reset(0)

    def to_act(self) -> int | None:
        """Return the seats in turn: in each round all speak, where there is talk, and then all give."""
        if len(self._given) == self.spec.seats * self._rounds:
            return None
        return (len(self._said) if self._talking else len(self._given)) % self.spec.seats

    def actions(self) -> Choices | FreeText:
        """Return the request for words, or the promises, or what a seat may give."""
        if self._talk == WORDS and self._talking and self.to_act() is not None:
            return speech(MOST_CHARACTERS)
        return super().actions()

    def observe(self, seat: int) -> str:
        """Return the stakes, what was said and given in the rounds that are shown, and the round."""
        tokens = f"{self._tokens} token{'s' if self._tokens > 1 else ''}"
        lines = [f"{self.spec.seats} players get {tokens} a round. The pot counts {self._growth:g} times."]
        finished = len(self._given) // self.spec.seats
        shown = range(finished - min(self._recall or finished, finished), finished)
        for number in shown:
            lines += [*self._talk_lines(number, seat), f"{self._label(number)}: {self._gifts(number, seat)}."]
        lines += self._talk_lines(finished, seat)
        if finished == self._rounds:
            return "\n".join(lines)
        if self._recall and not finished:
            lines.append("Last round: none.")
        now = "all talk" if self._talking else "all give"
        lines.append(f"Now {now}." if self._recall else f"Round {finished + 1} of {self._rounds}: {now}.")
        return "\n".join(lines)

    def is_public(self, line: str) -> bool:
        """Return whether a line says the same to all."""
        return addresses_all(line)

    def information_state(self, seat: int) -> str:
        """Return the seat, all that was said, all rounds that are over, and what it has given in this one."""
        seats = self.spec.seats
        over = len(self._given) // seats * seats
        mine = self._given[over + seat : over + seat + 1]
        return f"{seat} {self._said} {self._given[:over]} {mine}"

    def returns(self) -> tuple[float, ...]:
        """Return what each seat has earned in the rounds that are over."""
        seats, earned = self.spec.seats, [0.0] * self.spec.seats
        for given in self.contributions():
            share = self.marginal_return * sum(given)
            earned = [earned[seat] + self._tokens - given[seat] + share for seat in range(seats)]
        return tuple(earned)

    def least_returns(self) -> tuple[float, ...]:
        """Return what each seat ends with if it does worst from here on and nobody else gives any more.

        A token given costs its giver 1 − ``marginal_return``; where that is negative, to give nothing is worst.
        """
        seats, cost = self.spec.seats, max(0.0, 1.0 - self.marginal_return)
        over = len(self._given) // seats
        started = self._given[over * seats :]  # of the round that is not over, by seat; empty between rounds and after
        worst = self._tokens * (1.0 - cost)  # of a round in which a seat has not given
        share, to_come = self.marginal_return * sum(started), worst * (self._rounds - over - bool(started))
        this_round = [self._tokens - given + share for given in started]
        this_round += [worst + share if started else 0.0] * (seats - len(started))
        return tuple([paid + now + to_come for paid, now in zip(self.returns(), this_round, strict=True)])

    def contributions(self) -> tuple[tuple[int, ...], ...]:
        """Return the tokens that were given in each round that is over, by seat."""  # [rounds over][seats]
        seats = self.spec.seats
        return tuple([self._given[i : i + seats] for i in range(0, len(self._given) - seats + 1, seats)])

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, ``poor`` and ``random``.

        ``good`` gives all at first, and then what the others gave on average in the last round, and says so; ``poor``
        says that it gives all, and gives nothing.
        """
        return {
            "good": lambda _rng: self._say_or_give(self._matched(), self._matched()),
            "poor": lambda _rng: self._say_or_give(self._tokens, 0),
            "random": self.random_action,
        }

    @property
    def _talking(self) -> bool:
        """Whether the next turn of the match is a speech."""
        return self._talk != SILENT and len(self._said) < (len(self._given) // self.spec.seats + 1) * self.spec.seats

    def _begin(self) -> None:
        self._given, self._said = (), ()

    def _options(self) -> list[tuple[str, int]]:
        if self.to_act() is None:
            return []
        verb, first = (PROMISE, self._tokens + 1) if self._talking else (GIVE, 0)
        return [(f"{verb}{number}", first + number) for number in range(self._tokens + 1)]

    def _play(self, action: str) -> None:
        if self._talking:
            self._said = (*self._said, action)
        else:
            self._given = (*self._given, int(action.removeprefix(GIVE)))

    def _talk_lines(self, number: int, seat: int) -> tuple[str, ...]:
        """Return what was said in a round, as a seat sees it."""
        seats = self.spec.seats
        talk = Conversation(tuple([f"player {other + 1}" for other in range(seats)]))
        for index, words in enumerate(self._said[number * seats : (number + 1) * seats]):
            talk = talk.say(index, words)
        return talk.lines(seat)

    def _label(self, number: int) -> str:
        if not self._recall:
            return f"Round {number + 1}"
        ago = len(self._given) // self.spec.seats - number
        return "Last round" if ago == 1 else f"{ago} rounds ago"

    def _gifts(self, number: int, seat: int) -> str:
        given = self.contributions()[number]
        others = [f"player {other + 1} gave {given[other]}" for other in range(self.spec.seats) if other != seat]
        return ", ".join([f"you gave {given[seat]}", *others])

    def _matched(self) -> int:
        """Return what the seat to act gives by reciprocity: the others' mean of the last round, rounded down."""
        seat, past = self.to_act(), self.contributions()
        if not past or seat is None:
            return self._tokens
        return (sum(past[-1]) - past[-1][seat]) // (self.spec.seats - 1)

    def _say_or_give(self, said: int, given: int) -> str:
        return f"{PROMISE}{said}" if self._talking else f"{GIVE}{given}"


def promised(words: str) -> int | None:
    """Return the tokens that an utterance of the list's form promises; None for any other words."""
    match = re.fullmatch(rf"{PROMISE}(\d+)\.?", words)
    return int(match[1]) if match else None
