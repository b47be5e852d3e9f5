"""Value estimators: the value of turns, or what each added. One estimator a file, pure functions.

May import the files at the root of learners.

Most learn: ``make(trajectories, state, settings)`` gives one number a turn, ``learn(trajectories, state, settings)``
the state after more matches, plain JSON data that is saved with the run. Others run Monte Carlo continuations,
enumerate the game, or read the policy's own value heads; ``learners.values.estimator`` has the types, and ``How`` says
what each kind takes.
"""

from __future__ import annotations

from games.common.registry import Registry
from learners.trajectories import Evidence
from learners.values.alternatives import ESTIMATOR as ALTERNATIVES
from learners.values.archer import ESTIMATOR as ARCHER
from learners.values.continuations import ESTIMATOR as CONTINUATIONS
from learners.values.critic import ESTIMATOR as CRITIC
from learners.values.empirical import ESTIMATOR as EMPIRICAL
from learners.values.estimator import State, ValueEstimator
from learners.values.exact import ESTIMATOR as EXACT
from learners.values.preferences import ESTIMATOR as PREFERENCES
from learners.values.progress import ESTIMATOR as PROGRESS
from learners.values.sequential import ESTIMATOR as SEQUENTIAL
from learners.values.token_values import ESTIMATOR as TOKEN_VALUES

DEFAULT_ESTIMATOR = "critic"
ESTIMATORS = Registry(
    "estimators",
    "value estimator",
    ValueEstimator,
    "values.estimator",
    {
        "critic": CRITIC,
        "continuations": CONTINUATIONS,
        "alternatives": ALTERNATIVES,
        "exact": EXACT,
        "empirical": EMPIRICAL,
        "archer": ARCHER,
        "progress": PROGRESS,
        "preferences": PREFERENCES,
        "sequential": SEQUENTIAL,
        "token_values": TOKEN_VALUES,
    },
    reserved=("estimator", "estimators"),
)
register = ESTIMATORS.register


def with_estimates(evidence: Evidence, estimator: str, numbers: tuple[float, ...]) -> Evidence:
    """Return evidence with an estimator's number for each turn."""
    return evidence.with_cells(**{ESTIMATORS[estimator].kind.value: numbers})


def forget_policy(state: State, policy: str) -> State:
    """Return the estimators' states, by name, without what they hold about a policy."""
    forgetting = {name: ESTIMATORS[name].forget for name in state}
    return {
        name: part if (forget := forgetting[name]) is None else forget(part, policy) for name, part in state.items()
    }
