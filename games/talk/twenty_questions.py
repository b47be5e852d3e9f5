"""``twenty_questions``: an asker finds out which of several things is meant, by questions with yes or no for an answer.

The things are all pairs of ``colours`` colours and ``kinds`` kinds. One of them is drawn. The asker asks, up to
``questions`` times, whether it has one of some colours, or is of one of some kinds; then, or earlier, it names a thing,
which ends the match. The right one pays 1, and every question costs 1 / (2 · questions). With ``answerer=0`` the game
answers; with ``answerer=1`` a second seat does, who knows the thing and earns the same.

A question of which k of the n things that are still possible have the answer yes tells H(k / n) bits, its information
gain: 1 if it halves them. To know one thing of n takes log2(n) bits, so no asker needs fewer questions on average, and
where both numbers are powers of two halving needs no more. With ``form=0`` the asker asks in its own words, with
``form=1`` from a list; ``twenty_questions(colours=2,kinds=2,questions=2,form=1)`` is small enough for exact values.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Mapping
from functools import cached_property, partial

from games.common.errors import UsageError
from games.native.dealt import DealtGame
from games.native.names import game_name
from games.spec import Choices, FreeText, GameSpec, Utility
from games.talk.conversation import THINK_ALOUD, addresses_all

COLOURS = ("red", "blue", "green", "white", "black", "yellow")
KINDS = ("cat", "dog", "fox", "owl", "bear", "frog")
ASKER, ANSWERER = range(2)
YES, NO = ANSWERS = ("yes", "no")
MOST_CHARACTERS = 120  # of a question

DENIES = re.compile(r"\b(?:not|no|neither|nor|except|but)\b|n't\b")


class TwentyQuestions(DealtGame):
    """One match of ``twenty_questions``."""

    names = "it is the "  # before the thing, in an action that names it
    _thing: str | None  # the one that is meant
    _asked: tuple[str, ...]  # questions, in order
    _answers: tuple[str, ...]
    _named: str | None

    def __init__(self, colours: int = 4, kinds: int = 4, questions: int = 20, answerer: int = 0, form: int = 0) -> None:
        settings = {"colours": colours, "kinds": kinds, "questions": questions, "answerer": answerer}
        name = game_name("twenty_questions", TwentyQuestions, **settings, form=form)
        fits = 2 <= colours <= len(COLOURS) and 2 <= kinds <= len(KINDS) and 1 <= questions <= 50
        if not fits or not {answerer, form} <= {0, 1}:
            raise UsageError(
                f"There is no game {name!r}: colours and kinds are 2 to {len(COLOURS)}, questions 1 to 50, answerer 0 "
                "(the game) or 1 (a seat), and form 0 (words) or 1 (a list)."
            )
        self._values = (COLOURS[:colours], KINDS[:kinds])
        self._most, self._answerer, self._in_words = questions, bool(answerer), form == 0
        self.things = tuple(" ".join(pair) for pair in itertools.product(*self._values))
        self._questions = _questions(self._values)
        bits = math.log2(len(self.things))
        halving = all(len(names) & (len(names) - 1) == 0 for names in self._values) and questions >= bits
        self.spec = GameSpec(
            name=name,
            seats=1 + answerer,
            num_actions=0 if self._in_words else len(self._questions) + len(self.things) + 2 * answerer,
            max_turns=questions * (1 + answerer) + 1,
            min_return=-0.5,
            max_return=1.0,
            utility=Utility.IDENTICAL,
            perfect_information=False,
            has_chance=True,
            optimum=1.0 - bits / (2 * questions) if halving else None,
            free_text=self._in_words,
            suite="talk",
        )
        self.reset(0)

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the things that may be meant, at the beginning."""
        return () if self._thing else tuple([(thing, 1.0 / len(self.things)) for thing in self.things])

    def apply_chance(self, outcome: str) -> None:
        """Draw the thing that is meant."""
        self._thing = outcome

    def to_act(self) -> int | None:
        """Return the asker, and the answerer after every question; None once a thing was named."""
        if self._thing is None or self._named is not None:
            return None
        return ANSWERER if len(self._answers) < len(self._asked) else ASKER

    def actions(self) -> Choices | FreeText:
        """Return the request for a question or a name, or the list of them, or the two answers."""
        if self._in_words and self.to_act() == ASKER:
            values = " or ".join(self._values[0][:2])
            ask = f'a question on colours or on kinds, such as "Is it {values}?", or '
            form = f'{ask if self._may_ask else ""}the thing, such as "It is the {self.things[0]}"'
            reader = partial(read_question, values=self._values, may_ask=self._may_ask)
            why = partial(why_no_question, may_ask=self._may_ask)
            return FreeText(MOST_CHARACTERS, f"{form}{THINK_ALOUD}", reader, why, thinks=True)
        return super().actions()

    def observe(self, seat: int) -> str:
        """Return what may be meant, to the answerer what is, the questions and answers, and how many are left."""
        colours, kinds = (", ".join(names) for names in self._values)
        lines = [f"Colours: {colours}. Kinds: {kinds}."]
        if seat == ANSWERER:
            lines.append(f"It is the {self._thing}.")
        answers = itertools.zip_longest(self._asked, self._answers, fillvalue="?")
        lines += [f"{question.capitalize()} {answer}" for question, answer in answers]
        if self._named is not None:
            return "\n".join([*lines, f"Named: {self._named}. It was the {self._thing}."])
        return "\n".join([*lines, f"Questions left: {self._most - len(self._asked)}."])

    def hidden(self, seat: int) -> str:
        """Return what is meant, which the asker is to find out."""
        return f"It is the {self._thing}." if seat == ASKER else ""

    def is_public(self, line: str) -> bool:
        """Return whether a line says the same to all."""
        return addresses_all(line)

    def information_state(self, seat: int) -> str:
        """Return the seat and what it sees."""
        return f"{seat} {self.observe(seat)}"

    def returns(self) -> tuple[float, ...]:
        """Return what the questions have cost, and 1 for the right thing."""
        right = self._named is not None and self._named == self._thing
        return (right - len(self._asked) / (2 * self._most),) * self.spec.seats

    def possible(self) -> tuple[str, ...]:
        """Return the things that fit all answers so far."""
        return self._left(len(self._answers))

    def information(self) -> tuple[float, ...]:
        """Return the information gain of each question in bits, given what was known before it."""
        return tuple([self._gain(question, self._left(number)) for number, question in enumerate(self._asked)])

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, ``poor`` and ``random``.

        A good asker puts the most informative question until one thing is left, and a good answerer tells the
        truth; a poor asker names the first thing at once, and a poor answerer always says yes.
        """
        return {"good": lambda _rng: self._good(), "poor": lambda _rng: self._poor(), "random": self.random_action}

    @property
    def _may_ask(self) -> bool:
        return len(self._asked) < self._most

    @cached_property
    def _meanings(self) -> dict[str, frozenset[str]]:
        """The things for which the answer is yes, by question."""
        return {
            question: frozenset(thing for thing in self.things if set(thing.split()) & set(values))
            for question, values in self._questions.items()
        }

    def _begin(self) -> None:
        self._thing, self._asked, self._answers, self._named = None, (), (), None

    def _options(self) -> list[tuple[str, int]]:
        seat, first = self.to_act(), len(self._questions)
        if seat is None:
            return []
        if seat == ANSWERER:
            return [(answer, first + len(self.things) + number) for number, answer in enumerate(ANSWERS)]
        asks = [(question, number) for number, question in enumerate(self._questions)] if self._may_ask else []
        return [*asks, *((f"{self.names}{thing}", first + number) for number, thing in enumerate(self.things))]

    def _play(self, action: str) -> None:
        if self.to_act() == ANSWERER:
            self._answers = (*self._answers, action)
        elif action in self._questions:
            self._asked = (*self._asked, action)
            if not self._answerer:
                self._answers = (*self._answers, self._truth())
        else:
            self._named = action.removeprefix(self.names)

    def _truth(self) -> str:
        return YES if self._thing in self._meanings[self._asked[-1]] else NO

    def _left(self, answers: int) -> tuple[str, ...]:
        """Return the things that fit the first answers."""
        heard = list(zip(self._asked, self._answers[:answers], strict=False))
        return tuple(
            [
                thing
                for thing in self.things
                if all((thing in self._meanings[question]) == (answer == YES) for question, answer in heard)
            ]
        )

    def _gain(self, question: str, left: tuple[str, ...]) -> float:
        return entropy(sum(thing in self._meanings[question] for thing in left), len(left))

    def _good(self) -> str:
        if self.to_act() == ANSWERER:
            return self._truth()
        left = self.possible()
        if len(left) > 1 and self._may_ask:
            return max(self._questions, key=lambda question: self._gain(question, left))
        return f"{self.names}{(left or self.things)[0]}"

    def _poor(self) -> str:
        return YES if self.to_act() == ANSWERER else f"{self.names}{self.things[0]}"


def entropy(part: int, whole: int) -> float:
    """Return the bits of an answer that holds for ``part`` of ``whole`` equally likely things; 0 if ``part`` is 0."""
    shares = [count / whole for count in (part, whole - part) if 0 < count < whole]
    return -sum(share * math.log2(share) for share in shares)


def read_question(text: str, values: tuple[tuple[str, ...], ...], may_ask: bool) -> str | None:
    """Return a text as one question or one name; None if it is neither, or denies, or says both."""
    folded = " ".join(text.casefold().replace("’", "'").split())
    named = [[name for name in names if re.search(rf"\b{name}s?\b", folded)] for names in values]
    if len(text) > MOST_CHARACTERS or DENIES.search(folded):
        return None
    if all(len(found) == 1 for found in named):
        return _name(" ".join(found[0] for found in named))
    [found, others] = named if named[0] else named[::-1]
    meant = values[0] if named[0] else values[1]
    if others or not found or len(found) == len(meant) or not may_ask:
        return None
    return _asks(found)


def why_no_question(text: str, may_ask: bool) -> str:
    """Return why a text that ``read_question`` refused is neither a question nor a name."""
    if DENIES.search(" ".join(text.casefold().replace("’", "'").split())):
        return 'Your reply denies something: ask for what it may be, or name the thing, without "not", "no" or "but".'
    if not may_ask:
        return "There is no question left: name one thing, by its colour and its kind."
    return (
        "Your reply is read neither as one question nor as one thing: ask for colours or for kinds, some of them and "
        "not both, or name one thing by its colour and its kind."
    )


def _questions(values: tuple[tuple[str, ...], ...]) -> dict[str, tuple[str, ...]]:
    """Return every question with the values that it asks for."""
    subsets = [c for names in values for size in range(1, len(names)) for c in itertools.combinations(names, size)]
    return {_asks(subset): subset for subset in subsets}


def _asks(values: list[str] | tuple[str, ...]) -> str:
    return f"is it {' or '.join(values)}?"


def _name(thing: str) -> str:
    return f"{TwentyQuestions.names}{thing}"
