"""``challenge``: write an instruction, a verifier, a solution and cases of failure; solvers see the instruction alone.

The filter of Self-Challenging (Zhou et al. 2025, arXiv 2506.01716): the verifier must accept the solution and refuse
the cases of failure (``games.tasks.challenges``). With ``reward=2`` whatever passes it pays alike, as there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from games.native.names import game_name
from games.spec import FreeText
from games.tasks.challenges import deal_challenge
from games.tasks.find_number import FindNumber
from games.tasks.proposers.proposer_game import Size, WordsOnly, in_words


class ChallengeGame(WordsOnly):
    """One match of ``challenge``."""

    def __init__(self, tasks: int = 2, attempts: int = 8, reward: int = 0) -> None:
        name = game_name("challenge", ChallengeGame, tasks=tasks, attempts=attempts, reward=reward)
        super().__init__(name, FindNumber, Size(tasks, attempts, reward), 0, 1)

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, challenges as they are dealt; ``poor``, a verifier that accepts everything; ``random``."""
        return {
            "good": lambda rng: deal_challenge(rng.getrandbits(48)).text(),
            "poor": lambda _rng: "any number | drop 1 | 1 | 2 ; 3",
            "random": lambda rng: deal_challenge(rng.getrandbits(48)).text().rpartition(" ; ")[0],
        }

    def _form(self) -> FreeText:
        example = "a number between 30 and 33 | dup 30 > swap 33 < * | 31 | 30 ; 33"
        form = f'an instruction, a verifier, a solution and cases of failure, such as "{example}"'
        return in_words(form)

    def _essence(self, task: str) -> str:
        return task.partition(" | ")[0]
