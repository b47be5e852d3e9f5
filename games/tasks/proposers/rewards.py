"""What a written task pays its author, by the share p of attempts that solved it: one shape a function.

A task that is not admitted pays ``INVALID``, less than any that is. ``repetition`` is the share of the match's tasks,
written before this one, that are like it.

``agent0`` is the reward of Agent0's curriculum (Xia et al. 2025, arXiv 2511.16043), which is R-Zero's (Huang et al.
2025): at most 1, where half of the attempts succeed. ``low_not_zero`` is the injector's of self-play SWE-RL (Wei et al.
2025, arXiv 2512.18552), which falls with p and pays less than nothing for what nobody or everybody solves. ``filtered``
is Self-Challenging's (Zhou et al. 2025, arXiv 2506.01716): whatever the filter lets through is as good as anything.
``agent0_agreed`` is the whole of Agent0's, without an answer key: p is the share of attempts that give the most
frequent answer, the tools that they call are paid for, and an attempt is paid for agreeing, in tasks whose p is near
1/2. (Its scaling of advantages and of the clip by p, ADPO, is not here.)
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

INVALID = -1.0
REPETITION = 1.0  # Agent0's weight of repetition
ALPHA = 0.8  # self-play SWE-RL's
TOOLS, MOST_CALLS = 0.6 * 0.05, 4  # Agent0's weight of a call (0.6, times a factor that it does not tell) and its cap
BAND = 0.25  # Agent0's: it trains on tasks with |p - 1/2| up to this
ALIKE = 0.75  # similarity from which two tasks count as one


def agent0(rate: float, repetition: float, _calls: float) -> float:
    """Return max(0, 1 - 2 |p - 1/2| - repetition). Agent0 counts a task among those like it, which is a constant."""
    return agent0_agreed(rate, repetition, 0.0)


def low_not_zero(rate: float, _repetition: float, _calls: float) -> float:
    """Return 1 - (1 + alpha) p where 0 < p < 1, else -alpha."""
    return 1.0 - (1.0 + ALPHA) * rate if 0.0 < rate < 1.0 else -ALPHA


def filtered(_rate: float, _repetition: float, _calls: float) -> float:
    """Return 1: the task has passed the filter."""
    return 1.0


def agent0_agreed(rate: float, repetition: float, calls: float) -> float:
    """Return max(0, 1 - 2 |p - 1/2| + 0.03 min(calls, 4) - repetition); ``calls`` are of tools, by attempt."""
    return max(0.0, 1.0 - 2.0 * abs(rate - 0.5) + TOOLS * min(calls, MOST_CALLS) - REPETITION * repetition)


Shape = Callable[[float, float, float], float]
SHAPES: tuple[Shape, ...] = (agent0, low_not_zero, filtered, agent0_agreed)  # by a game's ``reward``
WITHOUT_KEY = frozenset({agent0_agreed})  # those for which the attempts' agreement is what counts as solved


def agreeing(answers: Sequence[str]) -> tuple[bool, ...]:
    """Return which answers are the most frequent one, of equally frequent ones the first; "" is no answer."""
    counts = Counter(answer for answer in answers if answer)
    label = max(counts, key=counts.__getitem__, default=None)
    return tuple([answer == label for answer in answers])


def repetition(task: str, earlier: Sequence[str], of: int) -> float:
    """Return how many earlier tasks are like this one, as a share of the ``of`` tasks of a match."""
    return sum(similarity(task, other) >= ALIKE for other in earlier) / of


def similarity(first: str, second: str) -> float:
    """Return the share of two texts' pairs of neighbouring characters that they have in common, 0 to 1 (Dice 1945)."""
    pairs = [Counter(itertools.pairwise(text)) for text in (first, second)]
    common, both = (pairs[0] & pairs[1]).total(), pairs[0].total() + pairs[1].total()
    return 2 * common / both if both else float(first == second)
