"""``reference``: a speaker describes one of several things to a listener, in words that name no attribute.

``things`` different things are drawn, each a list of ``attributes`` attributes with ``values`` values, such as "small
red cat". Both see them, in orders of their own, so that "the first one" means nothing; the speaker sees which is meant.
The listener reads what the speaker says and chooses a thing. Both earn 1 if it is the right one. With ``form=1`` the
speaker says ``length`` words from a vocabulary of ``words`` invented ones, with ``form=0`` a line of its own in which
no value's name may stand. A code of which each word stands for one attribute's value is always right if there are words
enough (a referential game: Lazaridou et al. 2018, arXiv 1804.03984).

``reference(things=2,attributes=1,values=2,words=2,length=1,form=1)`` is small enough for exact values.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from functools import partial

from games.common.errors import UsageError
from games.native.dealt import DealtGame
from games.native.names import game_name
from games.spec import Choices, FreeText, GameSpec, Utility
from games.talk.conversation import quoted, utterance
from games.talk.signalling import INVENTED

VALUES = (("tiny", "small", "large", "huge"), ("red", "blue", "green", "white"), ("cat", "dog", "fox", "owl"))
SPEAKER, LISTENER = range(2)
MOST_CHARACTERS = 60  # of what is said

Thing = tuple[str, ...]  # a value of each attribute


class ReferenceGame(DealtGame):
    """One match of ``reference``."""

    _things: tuple[int, ...]  # numbers of things, as the speaker sees them
    _meant: int | None  # the number of the thing that is meant
    _shown: tuple[int, ...]  # numbers of things, as the listener sees them
    _said: str | None
    _chosen: int | None

    def __init__(
        self, things: int = 4, attributes: int = 2, values: int = 3, words: int = 3, length: int = 2, form: int = 0
    ) -> None:
        settings = {"things": things, "attributes": attributes, "values": values, "words": words, "length": length}
        name = game_name("reference", ReferenceGame, **settings, form=form)
        fits = 1 <= attributes <= 3 and 2 <= values <= 4 and 2 <= things <= values**attributes
        if not fits or not (1 <= words <= len(INVENTED) and 1 <= length <= 3 and form in (0, 1)) or things > 9:
            raise UsageError(
                f"There is no game {name!r}: attributes is 1 to 3, values 2 to 4, things 2 to 9 and no more than there "
                f"are (values ** attributes), words 1 to {len(INVENTED)}, length 1 to 3, and form 0 (words of one's "
                "own) or 1 (a list)."
            )
        self._count, self._own_words = things, form == 0
        self._values = tuple([names[:values] for names in VALUES[-attributes:]])
        self._names = tuple(" ".join(thing) for thing in itertools.product(*self._values))
        self._messages = tuple(" ".join(said) for said in itertools.product(INVENTED[:words], repeat=length))
        self.spec = GameSpec(
            name=name,
            seats=2,
            num_actions=0 if self._own_words else max(len(self._messages), len(self._names)),
            max_turns=2,
            min_return=0.0,
            max_return=1.0,
            utility=Utility.IDENTICAL,
            perfect_information=False,
            has_chance=True,
            optimum=1.0 if self._own_words or len(self._messages) >= len(self._names) else None,
            free_text=self._own_words,
            suite="talk",
        )
        self.reset(0)

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the things that may be drawn next, then which is meant, then the next that the listener is shown."""
        if len(self._things) < self._count:
            left = [thing for thing in range(len(self._names)) if thing not in self._things]
        elif self._meant is None:
            left = list(self._things)
        else:
            left = [thing for thing in self._things if thing not in self._shown]
        return tuple([(self._names[thing], 1.0 / len(left)) for thing in left])

    def apply_chance(self, outcome: str) -> None:
        """Draw a thing, the one that is meant, or the next one that the listener is shown."""
        thing = self._names.index(outcome)
        if len(self._things) < self._count:
            self._things = (*self._things, thing)
        elif self._meant is None:
            self._meant = thing
        else:
            self._shown = (*self._shown, thing)

    def to_act(self) -> int | None:
        """Return the speaker, then the listener."""
        if len(self._shown) < self._count or self._chosen is not None:
            return None
        return SPEAKER if self._said is None else LISTENER

    def actions(self) -> Choices | FreeText:
        """Return the request for words, the list of messages, or the things to choose from."""
        if self._own_words and self.to_act() == SPEAKER:
            form = f"one line of at most {MOST_CHARACTERS} characters that uses none of these words: {self._taboo()}"
            return FreeText(MOST_CHARACTERS, form, partial(read_message, taboo=self._values))
        return super().actions()

    def observe(self, seat: int) -> str:
        """Return the things in the seat's order, which is meant or what was said, and how it ended."""
        order = self._things if seat == SPEAKER else self._shown
        lines = [f"Things: {', '.join(self._names[thing] for thing in order)}."]
        if seat == SPEAKER and self._meant is not None:
            lines.append(f"Meant: {self._names[self._meant]}.")
        if self._said is not None:
            lines.append(f"{'you' if seat == SPEAKER else 'speaker'}: {quoted(self._said)}")
        if self._chosen is not None and self._meant is not None:
            lines.append(f"Chosen: {self._names[self._chosen]}. Meant: {self._names[self._meant]}.")
        return "\n".join(lines)

    def information_state(self, seat: int) -> str:
        """Return the seat and what it sees."""
        return f"{seat} {self.observe(seat)}"

    def returns(self) -> tuple[float, ...]:
        """Return 1 for both if the thing that is meant was chosen."""
        return (float(self._chosen is not None and self._chosen == self._meant),) * 2

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, with a word for each value, ``poor`` and ``random``.

        ``poor`` always says the same, and chooses the first thing that it sees.
        """
        return {"good": lambda _rng: self._good(), "poor": lambda _rng: self.legal_actions()[0]} | {
            "random": self.random_action
        }

    def _begin(self) -> None:
        self._things, self._shown = (), ()
        self._meant = self._said = self._chosen = None

    def _options(self) -> list[tuple[str, int]]:
        seat = self.to_act()
        if seat is None:
            return []
        if seat == SPEAKER:
            return [(said, number) for number, said in enumerate(self._messages)]
        return [(self._names[thing], thing) for thing in self._shown]

    def _play(self, action: str) -> None:
        if self._said is None:
            self._said = action
        else:
            self._chosen = self._names.index(action)

    def _good(self) -> str:
        if self.to_act() == SPEAKER:
            assert self._meant is not None
            return self._code(self._meant)
        fitting = [thing for thing in self._shown if self._code(thing) == self._said]
        return self._names[(fitting or list(self._shown))[0]]

    def _code(self, thing: int) -> str:
        """Return the message of a thing: where there are words enough, a word for each of its values, in order."""
        values = self._names[thing].split()
        words = self._messages[-1].split()
        if len(words) == len(values) and INVENTED.index(words[0]) + 1 >= len(self._values[0]):
            return " ".join(INVENTED[names.index(value)] for names, value in zip(self._values, values, strict=True))
        return self._messages[thing % len(self._messages)]

    def _taboo(self) -> str:
        return ", ".join(itertools.chain(*self._values))


def read_message(text: str, taboo: tuple[tuple[str, ...], ...]) -> str | None:
    """Return a text as one line; None for none, for one that is too long, or one in which a value's name stands."""
    said = utterance(text, MOST_CHARACTERS)
    if said is None or any(name in said.casefold() for names in taboo for name in names):
        return None
    return said
