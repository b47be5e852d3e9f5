"""Tasks of finding a number from an instruction: which are admitted, and how they are dealt.

A task of ``find_number`` is text: an instruction, a verifier, a solution and cases of failure, such as

    a multiple of 7 between 30 and 40 | dup 7 % 0 = swap dup 29 > swap 41 < * * | 35 | 36 ; 14 ; 49

The verifier is a program that makes 1 of a right number and 0 of a wrong one. The task is refused unless the verifier
does so with the solution and with every case of failure, ends within the limits on each number there is, and refuses
most of them. An instruction that says the solution is refused too. What an instruction means no machine can check: one
that misleads is solved by nobody, and pays its author so.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache
from typing import NamedTuple

from games.talk.conversation import utterance
from games.tasks.admission import Refused
from games.tasks.checker import outcomes
from games.tasks.stack_machine import MOST_CHARACTERS

LARGEST = 99  # number that can be found, and the negative of the smallest
MOST_INSTRUCTION = 200  # characters
FEWEST_FAILURES, MOST_FAILURES = 2, 8
MOST_ACCEPTED = 0.25  # of all numbers
_NUMBER = re.compile(r"-?[0-9]{1,2}")


class Challenge(NamedTuple):
    """A number to be found."""

    instruction: str
    verifier: str
    solution: int
    failures: tuple[int, ...]

    def text(self) -> str:
        """Return the task as ``admit_challenge`` reads it."""
        failures = " ; ".join(map(str, self.failures))
        return f"{self.instruction} | {self.verifier} | {self.solution} | {failures}"


def admit_challenge(text: str) -> Challenge:
    """Return a task that is fit to be played. Raises Refused with the reason for any other."""
    challenge = _read(text)
    if len(set(challenge.failures)) < len(challenge.failures) or not (
        FEWEST_FAILURES <= len(challenge.failures) <= MOST_FAILURES
    ):
        raise Refused(f"it has not {FEWEST_FAILURES} to {MOST_FAILURES} different cases of failure")
    if str(challenge.solution) in re.findall(r"-?\d+", challenge.instruction):
        raise Refused("its instruction says its solution")
    numbers = tuple(range(-LARGEST, LARGEST + 1))
    verdicts = dict(zip(numbers, outcomes(challenge.verifier, numbers), strict=True))
    for number, verdict in verdicts.items():
        if verdict.number not in (0, 1):
            left = verdict.fault if verdict.number is None else f"it leaves {verdict.number}"
            raise Refused(f"its verifier does not make 0 or 1 of {number}: {left}")
    if not verdicts[challenge.solution].number:
        raise Refused("its verifier refuses its solution")
    if accepted := [number for number in challenge.failures if verdicts[number].number]:
        raise Refused(f"its verifier accepts its case of failure {accepted[0]}")
    if sum(verdict.number or 0 for verdict in verdicts.values()) > MOST_ACCEPTED * len(numbers):
        raise Refused(f"its verifier accepts more than {MOST_ACCEPTED:.0%} of all numbers")
    return challenge


def accepts(challenge: Challenge, number: int) -> bool:
    """Return whether the verifier accepts a number."""
    return outcomes(challenge.verifier, (number,))[0].number == 1


def _read(text: str) -> Challenge:
    """Return the task that a text holds. Raises Refused for a text that holds none; it is not checked here."""
    parts = text.split(" | ")
    if len(text) > MOST_CHARACTERS or len(parts) != 4:
        raise Refused("it has not an instruction, a verifier, a solution and cases of failure, with bars between")
    instruction, verifier, solution, failures = parts
    if utterance(instruction, MOST_INSTRUCTION) != instruction or not any(map(str.isalpha, instruction)):
        raise Refused(f"its instruction is no line of words, at most {MOST_INSTRUCTION} characters")
    numbers = [solution, *failures.split(" ; ")]
    if not all(map(_NUMBER.fullmatch, numbers)):
        raise Refused(f"its solution and cases of failure are not numbers from -{LARGEST} to {LARGEST}")
    return Challenge(instruction, " ".join(verifier.split()), int(solution), tuple(map(int, numbers[1:])))


@lru_cache(maxsize=4096)
def deal_challenge(seed: int) -> Challenge:
    """Return the challenge of a deal, of one of three kinds."""
    rng = random.Random(seed)
    kind = rng.randrange(3)
    if kind == 0:
        factor, low = rng.randint(5, 7), rng.randint(13, 60)
        words, verifier = (
            f"a multiple of {factor} between {low} and {low + 15}",
            f"dup {factor} % 0 = swap dup {low - 1} > swap {low + 16} < * *",
        )
        right = [n for n in range(low, low + 16) if n % factor == 0]
    elif kind == 1:
        root = rng.randint(2, 9)
        words, verifier, right = f"the square of {root}", f"{root * root} =", [root * root]
    else:
        first, second = rng.randint(10, 45), rng.randint(10, 45)
        words, verifier, right = f"{first} and {second} added", f"{first + second} =", [first + second]
    wrong = [number for number in range(100) if number not in right]
    unsaid = [number for number in right if not re.search(rf"\b{number}\b", words)]
    return Challenge(words, verifier, rng.choice(unsaid), tuple(rng.sample(wrong, 3)))
