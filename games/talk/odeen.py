"""``odeen``: a scientist finds out the rule that tells structures apart, by experiments, and says it in words.

A structure is a row of ``pieces`` pieces, each of one of ``colours`` colours and one of ``shapes`` shapes. A rule
counts pieces ("exactly 2 red", "at least 1 blue cube") or says what stands next to what ("red right before cube"). One
is drawn; the scientist tests structures, up to ``experiments``, is told of each whether it keeps the rule, and then, or
earlier, says the rule, which ends the match. The right one pays 1, every experiment costs 1 / (2 · experiments). After
Odeen (Norelli et al. 2022, arXiv 2201.10222), in which the table of results is given, and Zendo, in which one tests.

Hypotheses are counted by what they say of structures: rules that agree on all are one, whichever is said, and none
holds of all structures or of none. Each is as likely, so an experiment that k of the n hypotheses left answer with yes
tells H(k / n) bits, and ``possible()`` lists those left. With ``form=0`` the scientist writes in its own words, with
``form=1`` it chooses from lists; ``odeen(pieces=1,experiments=2,form=1)`` has 12 hypotheses, and exact values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, partial
from itertools import pairwise, product
from typing import NamedTuple

from games.common.errors import UsageError
from games.native.names import game_name
from games.spec import Choices, FreeText, GameSpec, Utility
from games.talk.conversation import THINK_ALOUD
from games.talk.twenty_questions import DENIES, TwentyQuestions

COLOURS = ("red", "blue", "green")
SHAPES = ("cube", "ball", "cone")
TEST = "test "  # before a structure, in an action that tests it
BEFORE = " right before "
MOST_CHARACTERS = 160  # of an experiment or a rule
NUMBERS = ("zero", "one", "two", "three")
PLURAL = re.compile(r"\b(cube|ball|cone)s\b")


class Universe(NamedTuple):
    """What there is to test and to suppose."""

    structures: tuple[str, ...]
    rules: Mapping[
        str, str
    ]  # every rule by its words, with the words of the one that stands for all that agree with it
    keep: Mapping[str, frozenset[str]]  # by structure the rules that it keeps, of those that stand for others

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """The rules that differ."""
        return tuple(dict.fromkeys(self.rules.values()))


@cache
def universe(pieces: int, colours: int, shapes: int) -> Universe:
    """Return all structures and rules, with which agree: the first of the shortest stands for them."""
    names = (COLOURS[:colours], SHAPES[:shapes])
    rows = list(product(product(*names), repeat=pieces))
    texts = {", ".join(" ".join(piece) for piece in row): row for row in rows}
    extents = {
        rule: frozenset(text for text, row in texts.items() if _holds(rule, row)) for rule in _rules(pieces, *names)
    }
    first: dict[frozenset[str], str] = {}
    for rule in sorted(extents, key=lambda rule: len(rule.split())):  # stable: equals keep their order
        if 0 < len(extents[rule]) < len(texts):
            first.setdefault(extents[rule], rule)
    keep = {text: frozenset(rule for extent, rule in first.items() if text in extent) for text in texts}
    return Universe(tuple(texts), {rule: first[e] for rule, e in extents.items() if e in first}, keep)


def _rules(pieces: int, colours: tuple[str, ...], shapes: tuple[str, ...]) -> Iterator[str]:
    """Yield the words of every rule, those that hold of all or of no structure too."""
    for kind in (*colours, *shapes, *map(" ".join, product(colours, shapes))):
        for number in range(pieces + 1):
            yield from (f"{bound} {number} {kind}" for bound in ("at least", "exactly", "at most"))
    yield from (f"{one}{BEFORE}{other}" for one in (*colours, *shapes) for other in (*colours, *shapes))


def _holds(rule: str, row: tuple[tuple[str, ...], ...]) -> bool:
    """Return whether a structure keeps a rule, by its words."""
    if BEFORE in rule:
        one, other = rule.split(BEFORE)
        return any(one in left and other in right for left, right in pairwise(row))
    bound, number, kind = re.fullmatch(r"(at least|exactly|at most) (\d) (.*)", rule).groups()  # type: ignore[union-attr]
    found = sum(set(kind.split()) <= set(piece) for piece in row)
    return {"at least": found >= int(number), "exactly": found == int(number)}.get(bound, found <= int(number))


class Odeen(TwentyQuestions):
    """One match of ``odeen``: its things are rules, and its questions structures."""

    names = "the rule is: "

    def __init__(
        self, pieces: int = 3, colours: int = 2, shapes: int = 2, experiments: int = 12, form: int = 0
    ) -> None:
        settings = {"pieces": pieces, "colours": colours, "shapes": shapes, "experiments": experiments, "form": form}
        name = game_name("odeen", Odeen, **settings)
        fits = 2 <= colours <= len(COLOURS) and 2 <= shapes <= len(SHAPES) and 1 <= pieces <= 3
        if not fits or not 1 <= experiments <= 50 or form not in (0, 1):
            raise UsageError(
                f"There is no game {name!r}: pieces is 1 to 3, colours 2 to {len(COLOURS)}, shapes 2 to {len(SHAPES)}, "
                "experiments 1 to 50, and form 0 (words) or 1 (a list)."
            )
        self._values = (COLOURS[:colours], SHAPES[:shapes])
        self._pieces, self._most, self._answerer, self._in_words = pieces, experiments, False, form == 0
        self._universe = universe(pieces, colours, shapes)
        self.things = self._universe.hypotheses
        self._questions = {f"{TEST}{structure}": (structure,) for structure in self._universe.structures}
        self.spec = GameSpec(
            name=name,
            seats=1,
            num_actions=0 if self._in_words else len(self._questions) + len(self.things),
            max_turns=experiments + 1,
            min_return=-0.5,
            max_return=1.0,
            utility=Utility.IDENTICAL,
            perfect_information=False,
            has_chance=True,
            free_text=self._in_words,
            suite="talk",
        )
        self.reset(0)

    def actions(self) -> Choices | FreeText:
        """Return the request for a structure or a rule, or the list of them."""
        if not self._in_words or self.to_act() is None:
            return Choices(self.legal_actions(), self.legal_ids())
        test = f'a structure to test, such as "Test {self._universe.structures[1]}", or ' if self._may_ask else ""
        form = f'{test}the rule, such as "The rule is: {self.things[0]}"{THINK_ALOUD}'
        read = partial(read_experiment, known=self._universe, values=self._values, may_test=self._may_ask)
        return FreeText(
            MOST_CHARACTERS,
            form,
            read,
            partial(why_no_experiment, may_test=self._may_ask, pieces=self._pieces),
            thinks=True,
        )

    def observe(self, seat: int) -> str:
        """Return what structures are made of, the results so far, and how many experiments are left."""
        colours, shapes = (", ".join(names) for names in self._values)
        lines = [f"Colours: {colours}. Shapes: {shapes}. Pieces in a row: {self._pieces}."]
        results = zip(self._asked, self._answers, strict=True)
        lines += [f"Keeps the rule, {asked.removeprefix(TEST)}: {answer}" for asked, answer in results]
        if self._named is not None:
            return "\n".join([*lines, f"Said: {self._named}. The rule was: {self._thing}."])
        return "\n".join([*lines, f"Experiments left: {self._most - len(self._asked)}."])

    def hidden(self, seat: int) -> str:
        """Return the rule, which the scientist is to find out."""
        return f"The rule is: {self._thing}."

    @cached_property
    def _meanings(self) -> dict[str, frozenset[str]]:
        """The rules that a structure keeps, by the action that tests it."""
        return {question: self._universe.keep[structure] for question, (structure,) in self._questions.items()}


def read_experiment(text: str, known: Universe, values: tuple[tuple[str, ...], ...], may_test: bool) -> str | None:
    """Return a text as one experiment or one rule, in the words that stand for it; None if it is neither, or denies."""
    folded = PLURAL.sub(r"\1", " ".join(text.casefold().replace("’", "'").split()))
    if len(text) > MOST_CHARACTERS or DENIES.search(folded):
        return None
    for number, word in enumerate(NUMBERS):
        folded = re.sub(rf"\b{word}\b", str(number), folded)
    words = "|".join((*values[0], *values[1]))
    pair = f"(?:{'|'.join(values[0])}) (?:{'|'.join(values[1])})"
    kind = rf"(?:{pair}|(?:{words})(?! (?:{words})))"
    said = re.findall(rf"\b(?:at least|exactly|at most) \d {kind}\b|\b{kind}{BEFORE}{kind}\b", folded)
    if said:
        return f"{Odeen.names}{known.rules[said[0]]}" if len(said) == 1 and said[0] in known.rules else None
    structure = ", ".join(re.findall(rf"\b{pair}\b", folded))
    loose = re.findall(rf"\b(?:{words})\b", folded)
    return (
        f"{TEST}{structure}" if may_test and structure in known.keep and len(loose) == len(structure.split()) else None
    )


def why_no_experiment(text: str, may_test: bool, pieces: int) -> str:
    """Return why a text that ``read_experiment`` refused is neither an experiment nor a rule."""
    if DENIES.search(" ".join(text.casefold().replace("’", "'").split())):
        return 'Your reply denies something: say what is to be tested, or the rule, without "not", "no" or "but".'
    rule = 'one rule, as "exactly 2 red", "at least 1 blue cube" or "red right before ball"'
    if not may_test:
        return f"There is no experiment left: say {rule}."
    return f"Your reply is read neither as a row of {pieces} pieces, each of a colour and a shape, nor as {rule}."
