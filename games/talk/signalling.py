"""``signalling``: one sees a state and says a word that means nothing yet; the other acts on the word (Lewis 1969).

In each of ``rounds`` rounds a state is drawn, each of ``states`` equally likely. The sender sees it and says one word;
the receiver, who sees the word alone, chooses a state. Both earn 1 if it is the right one, and then both are told what
it was. Nothing but use gives a word its meaning: with ``form=1`` the sender chooses from ``words`` invented words, with
``form=0`` it says a word of its own, of letters, in which no state's name may stand. So who says the same word whatever
it sees is right once in ``states`` times, and the best code ``min(words, states)`` times in ``states``.

``signalling(rounds=1,form=1)`` is OpenSpiel's ``lewis_signaling``, and small enough for exact values.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import permutations
from math import perm
from typing import NamedTuple

from games.abilities import Answers
from games.common.errors import UsageError
from games.native.dealt import DealtGame
from games.native.names import game_name
from games.spec import Choices, FreeText, GameSpec, Utility
from games.talk.conversation import addresses_all

STATES = ("sun", "tree", "fish", "bell", "drum", "lamp", "boat", "ring")
INVENTED = ("bem", "dax", "fep", "guv", "kiz", "lom", "nup", "tiv")  # words without meaning
SENDER, RECEIVER = range(2)
MOST_LETTERS = 12  # of a word of one's own
MOST_CODES = 24  # that have a script each


class Round(NamedTuple):
    """One round as far as it has come; "" for what is not there yet."""

    state: str = ""
    word: str = ""
    choice: str = ""


class Signalling(DealtGame):
    """One match of ``signalling``."""

    _rounds: tuple[Round, ...]  # the last one is being played

    def __init__(self, states: int = 3, words: int = 3, rounds: int = 3, form: int = 0) -> None:
        name = game_name("signalling", Signalling, states=states, words=words, rounds=rounds, form=form)
        fits = 2 <= states <= len(STATES) and 1 <= words <= len(INVENTED) and 1 <= rounds <= 50 and form in (0, 1)
        if not fits or (form == 0 and words != 3):
            raise UsageError(
                f"There is no game {name!r}: states is 2 to {len(STATES)}, words 1 to {len(INVENTED)} (of a list, so "
                "with form=1 only), rounds 1 to 50, and form 0 (words of one's own) or 1 (a list)."
            )
        self._states, self._words, self._most, self._own_words = STATES[:states], INVENTED[:words], rounds, form == 0
        self.spec = GameSpec(
            name=name,
            seats=2,
            num_actions=0 if self._own_words else max(states, words),
            max_turns=2 * rounds,
            min_return=0.0,
            max_return=float(rounds),
            utility=Utility.IDENTICAL,
            perfect_information=False,
            has_chance=True,
            optimum=float(rounds) if self._own_words else rounds * min(words, states) / states,
            free_text=self._own_words,
            suite="talk",
        )
        self.reset(0)

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the states that a round may have, at its beginning."""
        if self._rounds[-1].state:
            return ()
        return tuple([(state, 1.0 / len(self._states)) for state in self._states])

    def apply_chance(self, outcome: str) -> None:
        """Draw a round's state."""
        self._change(state=outcome)

    def to_act(self) -> int | None:
        """Return the sender, then the receiver, in every round."""
        now = self._rounds[-1]
        if not now.state or now.choice:
            return None
        return RECEIVER if now.word else SENDER

    def actions(self) -> Choices | FreeText:
        """Return the request for a word, the list of words, or the states to choose from."""
        if self._own_words and self.to_act() == SENDER:
            form = f"one word of your own, of at most {MOST_LETTERS} letters, that names none of the things"
            return FreeText(MOST_LETTERS + 20, form, partial(read_word, taboo=self._states))
        return super().actions()

    def observe(self, seat: int) -> str:
        """Return the rounds that are over, and the thing or the word of this one."""
        lines = [f"Things: {', '.join(self._states)}."]
        for number, past in enumerate(self._rounds, 1):
            if past.choice:
                chose = "you chose" if seat == RECEIVER else "they chose"
                lines.append(f"Round {number}: word {past.word}, {chose} {past.choice}, it was {past.state}.")
        now, number = self._rounds[-1], len(self._rounds)
        if now.choice:
            return "\n".join(lines)
        known = f"it is {now.state or 'not drawn yet'}" if seat == SENDER else f"word {now.word or 'not said yet'}"
        return "\n".join([*lines, f"Round {number} of {self._most}: {known}."])

    def is_public(self, line: str) -> bool:
        """Return whether a line says the same to all."""
        return addresses_all(line)

    def information_state(self, seat: int) -> str:
        """Return the seat, what it sees, and the word that it has said."""
        word = self._rounds[-1].word if seat == SENDER else ""
        return f"{seat} {word} {self.observe(seat)}"

    def returns(self) -> tuple[float, ...]:
        """Return the rounds in which the right state was chosen, for both."""
        right = sum(past.choice == past.state for past in self._rounds if past.choice)
        return (float(right),) * 2

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, who has the invented words in the order of the states, ``poor``, ``bayes`` and ``random``.

        ``poor`` always says the first word, and chooses the first state. ``bayes`` believes that the other keeps to a
        code, each as likely, in which no two states have one word: of three states and words to six codes. It plays by
        the pairs of word and state that it has seen of it, and else draws from what no pair has taken, so that after k
        rounds with any of the six it is right with probability 1 - 3^-k, and at first 1/3. Where these codes are at
        most ``MOST_CODES``, ``code-1``, ``code-2``, … play by one each, in the order of the words of the first state,
        then of the second, and so on: ``code-1`` is ``good``.
        """
        return {
            "good": lambda _rng: self._good(),
            "poor": lambda _rng: self._poor(),
            "bayes": self._bayes,
            "random": self.random_action,
            **{name: partial(self._by_code, code) for name, code in _codes(self._states, self._words).items()},
        }

    def probe_answers(self, probe: str, seat: int) -> Answers:
        """Return the things, and the present one, to the question ``thing``."""
        state = self._rounds[-1].state
        return Answers(self._states, (state,) if state else ()) if probe == "thing" else Answers()

    def belief(self, script: str, probe: str, seat: int) -> Mapping[str, float] | None:
        """Return what a script makes of the question ``thing``: ``good`` knows what the word stands for."""
        now = self._rounds[-1]
        if probe != "thing" or script not in self.scripts():
            return None
        if code := _codes(self._states, self._words).get(script):
            heard = [state for state, word in code.items() if seat == RECEIVER and word == now.word]
            known = [now.state] if seat == SENDER and now.state else heard or self._states
            return {state: float(state in known) / len(known) for state in self._states}
        words = INVENTED if self._own_words else self._words
        if script in ("good", "bayes") and seat == SENDER and now.state:
            return {now.state: 1.0}
        if script == "bayes" and seat == RECEIVER and now.word:
            likely = self._may_mean(now.word)
            return {state: float(state in likely) / len(likely) for state in self._states}
        if script == "good" and now.word in words[: len(self._states)]:
            meant = [thing for thing in range(len(self._states)) if min(thing, len(words) - 1) == words.index(now.word)]
            return {self._states[thing]: 1.0 / len(meant) for thing in meant}
        return {state: 1.0 / len(self._states) for state in self._states}

    def _begin(self) -> None:
        self._rounds = (Round(),)

    def _options(self) -> list[tuple[str, int]]:
        seat = self.to_act()
        if seat is None:
            return []
        labels = self._states if seat == RECEIVER else INVENTED if self._own_words else self._words
        return [(label, number) for number, label in enumerate(labels)]

    def _play(self, action: str) -> None:
        if self.to_act() == SENDER:
            self._change(word=action)
            return
        self._change(choice=action)
        if len(self._rounds) < self._most:
            self._rounds = (*self._rounds, Round())

    def _change(self, **parts: str) -> None:
        self._rounds = (*self._rounds[:-1], self._rounds[-1]._replace(**parts))

    def _good(self) -> str:
        now, words = self._rounds[-1], INVENTED if self._own_words else self._words
        if self.to_act() == SENDER:
            return words[min(self._states.index(now.state), len(words) - 1)]
        return self._states[words.index(now.word) % len(self._states)] if now.word in words else self._states[0]

    def _by_code(self, code: Mapping[str, str], _rng: random.Random) -> str:
        now = self._rounds[-1]
        if self.to_act() == SENDER:
            return code[now.state]
        return next((state for state, word in code.items() if word == now.word), self._states[0])

    def _bayes(self, rng: random.Random) -> str:
        now, words = self._rounds[-1], INVENTED if self._own_words else self._words
        if self.to_act() == RECEIVER:
            return rng.choice(self._may_mean(now.word))
        pairs = {past.choice: past.word for past in self._rounds if past.choice}  # what the receiver made of words
        free = [word for word in words if word not in pairs.values()]
        return pairs[now.state] if now.state in pairs else rng.choice(free or words)

    def _may_mean(self, word: str) -> tuple[str, ...]:
        """Return the states that a word may stand for, by what the sender has said of which before."""
        pairs = {past.word: past.state for past in self._rounds if past.choice}
        if word in pairs:
            return (pairs[word],)
        return tuple([state for state in self._states if state not in pairs.values()]) or self._states

    def _poor(self) -> str:
        return INVENTED[0] if self.to_act() == SENDER else self._states[0]


@cache
def _codes(states: tuple[str, ...], words: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Return the words of states by the name of each code's script; none where there are too many."""
    if not 0 < perm(len(words), len(states)) <= MOST_CODES:
        return {}
    told = (dict(zip(states, code, strict=True)) for code in permutations(words, len(states)))
    return {f"code-{number}": code for number, code in enumerate(told, 1)}


def read_word(text: str, taboo: tuple[str, ...]) -> str | None:
    """Return a text as one word in small letters; None for more or fewer words, or one in which a taboo stands."""
    word = text.strip().strip("\"'“”.!").casefold()
    fits = re.fullmatch(rf"[a-z]{{1,{MOST_LETTERS}}}", word)
    return word if fits and not any(name in word for name in taboo) else None
