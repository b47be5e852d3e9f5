"""Courses of credit rules over tables: what the microscope says of each at the start, and what is then learned.

The policy is one softmax at each information state of an exact game, matches are its own with itself, and an update
goes a step of a given length along the rule's gradient of 32 matches: rules differ in direction alone, and nothing of a
language model's is in the way. Estimators learn from the run's own matches. All conditions of a seed draw with the same
seeds and play the same number of matches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from benchmarks.simulations.drawn_matches import Ends, ExactForm, ends_of
from benchmarks.simulations.played_matches import Plays, plays_of
from games.aliases import full_name
from games.common.seeds import derive_seed
from games.registry import make_game
from league.config.credit import CreditConfig
from league.lab.credit.accuracy import Compared, accuracy, batch_gradient
from league.lab.credit.matches import PlayedBatch
from league.lab.credit.rules import RuleVariant, credit_batches, parse_variant
from league.theory.exact.exploitability import PolicyTable, nash_conv
from league.theory.exact.turn_values import TurnValues, turn_values
from learners.advantages.rule import State
from learners.trajectories import Evidence, Trajectory, return_scale
from learners.values import ESTIMATORS, with_estimates

SMALL = "matches=1024,shrink=16"  # memory of a run of 2,560 matches
VALUES = {
    "gae_turn, exact values, λ = 0": "gae_turn:trace_decay=0",
    "gae_turn, archer, λ = 0": f"gae_turn:trace_decay=0@archer:{SMALL},sweeps=2",
    "contribution, progress": f"contribution@progress:{SMALL}",
    "contribution, preferences": f"contribution@preferences:{SMALL},steps=8",
}
BATCH, LEARN_EVERY = 32, 4
LOOKED, TAUGHT = 48, 1024  # batches under the microscope, and matches that its estimators learn from
Drawn = Ends | Plays


class Courses(NamedTuple):
    """What is learned with several rules in several games."""

    steps: dict[str, float]  # the first step by game; the last is 0
    rules: dict[str, str]  # by name; the default first
    iterations: int
    look_every: int
    drawn: Callable[[str], Drawn]


COURSES = {
    "which_rule": Courses(
        {"kuhn_poker": 0.3, "small_sheriff": 0.5, "tiny_hanabi": 0.3},
        {"rae": "rae", "comas": "comas"} | VALUES,
        iterations=80,
        look_every=4,
        drawn=ends_of,
    ),
    "which_rule_groups": Courses(
        {"leduc_poker": 1.0, "hex(board_size=3)": 1.0, "tiny_hanabi": 0.3},
        {"rae": "rae", "rloo": "rloo", "grpo": "grpo"} | VALUES,
        iterations=40,
        look_every=5,
        drawn=plays_of,
    ),
    "mars_levels": Courses(
        {"repeated_kuhn_poker(hands=2)": 0.3, "repeated_game(stage_game=matrix_brps(),num_repetitions=3)": 0.3},
        {"mars, trajectory level": "mars:level=trajectory", "mars, turn level": "mars"},
        iterations=80,
        look_every=4,
        drawn=plays_of,
    ),
}


class Credit:
    """A rule with what it and its estimator have learned so far."""

    def __init__(self, variant: RuleVariant, scale: float) -> None:
        self.variant, self._scale = variant, scale
        self._rule, self._values = State(), State()
        self._new: list[Trajectory] = []

    def learn(self, batch: PlayedBatch, every: int = 1) -> None:
        """Let the estimator learn from a batch, ``every`` this many batches."""
        if self.variant.estimator is None:
            return
        self._new += batch.trajectories
        if len(self._new) >= every * len(batch.trajectories):
            learn = ESTIMATORS[self.variant.estimator].learn
            assert learn is not None, "courses have rules with estimators that learn"
            self._values = learn(self._new, self._values, self.variant.estimator_settings)
            self._new = []

    def evidence(self, batch: PlayedBatch, turns: TurnValues) -> list[Evidence]:
        """Return the turns' values or contributions, exact ones where the rule has no estimator."""
        name = self.variant.estimator
        if name is not None:
            found = ESTIMATORS[name].make(batch.trajectories, self._values, self.variant.estimator_settings)
            return [with_estimates(Evidence(), name, numbers) for numbers in found]
        if not self.variant.given_values:
            return [Evidence()] * len(batch.trajectories)
        values = (turns.values[batch.states] / self._scale).tolist()
        counts = np.cumsum([0, *(len(t.turns) for t in batch.trajectories)])
        return [Evidence(values=tuple(values[a:b])) for a, b in pairwise(counts)]

    def gradient(self, batch: PlayedBatch, turns: TurnValues) -> Any:
        """Return the rule's gradient of a batch, as it credits while it learns."""
        evidence = self.evidence(batch, turns)
        credited = self.variant.rule.make(batch.trajectories, evidence, self._rule, self.variant.settings)
        self._rule = credited.state
        return batch_gradient(turns, batch, np.array(list(chain.from_iterable(credited.advantages))))


def study(courses: Courses, alias: str, seed: int) -> dict[str, Any]:
    """Return by rule the cosine at the start and the exploitability, or the team's return, after each look."""
    game = full_name(alias)
    ends = courses.drawn(game)
    print(f"{alias}, seed {seed}", file=sys.stderr, flush=True)
    spec = make_game(game).spec
    found: dict[str, Any] = {}
    for name, text in courses.rules.items():
        rng = np.random.default_rng(derive_seed("which rule", game, seed))
        credit = parse_variant(text, CreditConfig())
        scale = return_scale(spec)
        found[name] = {
            "cosine": look_at(ends, Credit(credit, scale), rng, View(BATCH, LOOKED, TAUGHT))["figure"],
            "course": _course(courses, alias, ends, Credit(credit, scale), rng),
        }
    return found


class View(NamedTuple):
    """How many matches are looked at."""

    batch: int
    batches: int
    taught: int  # that estimators learn from first


def look_at(ends: Drawn, credit: Credit, rng: np.random.Generator, view: View) -> dict[str, float]:
    """Return the mean cosine of a batch's gradient at uniform play, its bias and noise, as in the microscope."""
    rows = [[1.0 / len(ids)] * len(ids) for ids in ends.form.legal]
    turns = turn_values(ends.form, rows)
    credit.learn(ends.draw(rows, view.taught, rng))
    batches = [ends.draw(rows, view.batch, rng) for _ in range(view.batches)]
    given = credit_batches(credit.variant, batches, [credit.evidence(batch, turns) for batch in batches])
    gradients = [batch_gradient(turns, batch, one) for batch, one in zip(batches, given, strict=True)]
    found = accuracy(Compared(np.array(gradients), turns.gradient, view.batch), None)
    assert found.cosine is not None
    bias = float("nan") if found.bias is None else found.bias.mean
    return {"figure": found.cosine.mean, "bias": bias, "noise": found.noise or 0.0}


def _course(courses: Courses, alias: str, ends: Drawn, credit: Credit, rng: np.random.Generator) -> list[float]:
    """Return what the policy is worth before learning and after each look: less is better."""
    logits = np.zeros(sum(map(len, ends.form.legal)))
    bounds = np.cumsum([0, *map(len, ends.form.legal)])
    course, step, given_values = [], courses.steps[alias], credit.variant.given_values
    for iteration in range(courses.iterations + 1):
        rows = [_softmax(logits[a:b]) for a, b in pairwise(bounds)]
        if iteration % courses.look_every == 0:
            course.append(_worth(full_name(alias), ends, rows))
        batch = ends.draw(rows, BATCH, rng)
        gradient = credit.gradient(
            batch, turn_values(ends.form, rows) if given_values else policy_alone(ends.form, rows)
        )
        credit.learn(batch, LEARN_EVERY)
        length = float(np.linalg.norm(gradient))
        logits = logits + step * (1.0 - iteration / courses.iterations) * gradient / max(length, 1e-9)
    return course


def policy_alone(form: ExactForm, rows: list[list[float]]) -> TurnValues:
    """Return a policy whose values are not computed: NaN."""
    first = np.cumsum([0, *map(len, form.legal)])
    states, actions = np.full(len(rows), np.nan), np.array(list(chain.from_iterable(rows)))
    seats = np.array([seat for seat, _ in form.keys], np.intp)
    return TurnValues(seats, np.zeros_like(seats), first, actions, states, states, np.full(len(actions), np.nan))


def _worth(game: str, ends: Drawn, rows: list[list[float]]) -> float:
    """Return the exploitability, or what a team's return lacks of the best one."""
    spec = make_game(game).spec
    if spec.utility.value == "identical":
        return float(spec.max_return - ends.form.values(rows)[0])
    return (
        nash_conv(PolicyTable(game, {key: tuple(row) for key, row in zip(ends.form.keys, rows, strict=True)}))
        / spec.seats
    )


def _softmax(logits: Any) -> list[float]:
    terms = np.exp(logits - logits.max())
    return list((terms / terms.sum()).tolist())
