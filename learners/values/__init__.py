"""Turn values that are learned: what a turn was worth, or what it added. One estimator a file, pure functions.

May import the files at the root of learners.

An estimator has ``estimate(trajectories, state, settings) -> values``, one number a turn, and ``learn(trajectories,
state, settings) -> state``; its state is plain JSON data that is saved with the run. ``learners.values.estimator`` has
the types. Four more estimators have their homes elsewhere: ``critic`` reads the policy's hidden states
(``learners.update.critic``), ``continuations`` and ``alternatives`` play on, and ``exact`` counts
the whole game out (``league.credit``).
"""

from __future__ import annotations

from typing import Any

from games.common.errors import unknown_name
from learners.trajectories import Evidence
from learners.values.archer import ESTIMATOR as ARCHER
from learners.values.estimator import Estimated, State, ValueEstimator
from learners.values.preferences import ESTIMATOR as PREFERENCES
from learners.values.progress import ESTIMATOR as PROGRESS
from learners.values.sequential import ESTIMATOR as SEQUENTIAL
from learners.values.token_values import ESTIMATOR as TOKEN_VALUES

CRITIC, CONTINUATIONS, ALTERNATIVES, EXACT = "critic", "continuations", "alternatives", "exact"
PLAYED_ON = (CONTINUATIONS, ALTERNATIVES)  # they learn nothing: matches are played on from their middles
ESTIMATORS: dict[str, ValueEstimator[Any]] = {
    "archer": ARCHER,
    "progress": PROGRESS,
    "preferences": PREFERENCES,
    "sequential": SEQUENTIAL,
    "token_values": TOKEN_VALUES,
}
NAMES = (CRITIC, *PLAYED_ON, EXACT, *ESTIMATORS)


def check_name(name: str) -> None:
    """Raise UsageError, with the nearest names, for one that no estimator has."""
    if name not in NAMES:
        raise unknown_name("value estimator", name, NAMES, "Set values.estimator.")


def kind_of(name: str) -> Estimated:
    """Return what an estimator's numbers are."""
    if name in ESTIMATORS:
        return ESTIMATORS[name].kind
    return Estimated.CONTRIBUTIONS if name in (ALTERNATIVES, EXACT) else Estimated.VALUES


def with_estimates(evidence: Evidence, estimator: str, numbers: tuple[float, ...]) -> Evidence:
    """Return evidence with what an estimator says of each turn."""
    if kind_of(estimator) is Estimated.VALUES:
        return evidence._replace(values=numbers)
    return evidence._replace(contributions=numbers)


def forget_policy(state: State, policy: str) -> State:
    """Return the estimators' states, by name, without what they hold of a policy."""
    return {name: ESTIMATORS[name].forget(part, policy) for name, part in state.items()}
