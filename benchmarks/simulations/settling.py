"""Which constants settle: tables that learn Kuhn and Leduc poker by the update of `objective`, rule by rule.

Goofspiel stands beside them for what constants do that were not chosen on it.

    python -m benchmarks.simulations.settling [--seeds 101 102 103] [--json]

The model of the update is `benchmarks/simulations/settling_table.py`. Every rule plays the same number of matches.
Figures are exploitabilities of the newest policy, means over the last quarter of its updates.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.simulations.settling_table import DAMPING, Batch, Floats, Table
from league.config.schedules import SCHEDULES, Time

MEASURED = 20  # times in a course


class Rule(NamedTuple):
    """The constants of an update, as in `[objective]`; pairs go from the first to the second."""

    name: str
    kl_old: tuple[float, float]
    entropy: tuple[float, float]
    magnet: tuple[float, float] = (0.0, 0.0)
    magnet_every: int = 25
    magnet_uniform: float = 0.1
    average: float = 0.0
    in_rewards: bool = False
    optimism: float = 0.0
    schedule: str = "geometric"
    exact: bool = False
    updates: int = 200  # that share ``MATCHES``
    damping: float = DAMPING  # 0: all states move alike, however seldom they are met


class Course(NamedTuple):
    """The exploitability of the newest policy in a course of updates, and of its averaged logits."""

    newest: list[float]
    averaged: list[float]


RETURNS = Rule("`settle-returns`", (1.2, 12.0), (0.15, 0.004), (0.15, 0.05), 5, average=0.95)
SETTLE = Rule("`settle`", (0.7, 2.0), (0.02, 0.001), (0.2, 0.2), 10, 0.01, 0.95, exact=True, updates=400, damping=0.0)
RULES = (
    Rule("plain, as `pocket`", (2.0, 2.0), (0.15, 0.04)),
    Rule("plain, longer steps and less entropy", (0.5, 0.5), (0.03, 0.02)),
    Rule("mirror descent, annealed: kl_old 1, entropy 0.2", (1.0, 1.0), (0.2, 0.2), schedule="mmd"),
    Rule("the same within its guarantee: kl_old 5, entropy 0.2", (5.0, 5.0), (0.2, 0.2), schedule="mmd"),
    Rule("a magnet of 0.2 every 25, kl_old 5", (5.0, 5.0), (0.15, 0.02), (0.2, 0.2)),
    RETURNS._replace(average=0.0, name="`settle-returns` without the average"),
    RETURNS,
    RETURNS._replace(name="`settle-returns`, its magnet in the rewards (R-NaD)", in_rewards=True),
    RETURNS._replace(name="`settle-returns`, optimistic steps", optimism=1.0),
    RETURNS._replace(name="`settle-returns` with exact advantages", exact=True),
    RETURNS._replace(name="the same, and all states move alike", exact=True, damping=0.0),
    SETTLE._replace(name="`settle`, but states move as often as they are met", damping=DAMPING),
    SETTLE._replace(
        name="`settle` with a weaker magnet: 0.07 to 0.04 every 25, kl_old 0.7 to 1",
        kl_old=(0.7, 1.0),
        magnet=(0.07, 0.04),
        magnet_every=25,
    ),
    SETTLE,
)
GAMES = ("kuhn_poker", "leduc_poker", "goofspiel(imp_info=True,num_cards=4,points_order=descending)")
MATCHES = 200 * 1024


def learn(table: Table, rule: Rule, updates: int, matches: int, seed: int) -> Course:
    """Return the course of a table that learns by a rule."""
    rng = np.random.default_rng(seed)
    policy = magnet = mean = table.normalised(np.zeros(table.size))
    baselines, before = np.zeros(table.seats), np.zeros(table.size)
    course = Course([], [])
    for update in range(1, updates + 1):
        batch = table.all_matches(policy, matches) if rule.exact else table.sampled(policy, matches, rng)
        weights = _weights(rule, update, updates)
        pulled = _mixed(table, magnet, rule.magnet_uniform)
        returns = table.returns[batch.terminal, table.seat[batch.sequence]]
        if rule.in_rewards:
            returns = returns + _paid(table, policy - pulled, batch, weights["magnet"])
        advantages, turns = _advantages(table, policy, batch, returns - baselines[table.seat[batch.sequence]])
        baselines = 0.95 * baselines + 0.05 * _mean_returns(table, batch)
        step = advantages + rule.optimism * (advantages - before)
        before = np.where(turns > 0, advantages, before)
        weights |= {"magnet": 0.0} if rule.in_rewards else {}
        policy = _updated(policy, pulled, step, turns, weights, rule.damping)
        policy = table.normalised(policy)
        decay = min(rule.average, (update - 1) / update)
        mean = decay * mean + (1 - decay) * policy
        if update % rule.magnet_every == 0:
            magnet = policy
        if update % max(updates // MEASURED, 1) == 0:
            course.newest.append(table.exploitability(policy))
            course.averaged.append(table.exploitability(table.normalised(mean)))
    return course


def _weights(rule: Rule, update: int, updates: int) -> dict[str, float]:
    """Return the weights of an update (counted from 1)."""
    pull, step = SCHEDULES[rule.schedule]
    time = Time(update, (update - 1) / max(updates - 1, 1))
    return {
        "kl_old": step(*rule.kl_old, time),
        "entropy": pull(*rule.entropy, time),
        "magnet": pull(*rule.magnet, time),
    }


def _mixed(table: Table, magnet: Floats, uniform: float) -> Floats:
    """Return the magnet's log-probs, mixed with a share of the uniform policy."""
    mixed = magnet.copy()
    own = slice(table.seats, None)
    mixed[own] = np.log((1 - uniform) * np.exp(magnet[own]) + uniform / table.actions[table.state[own]])
    return mixed


def _paid(table: Table, log_ratios: Floats, batch: Batch, weight: float) -> Floats:
    """Return what R-NaD adds to each entry's return: the seat's later log-ratios cost, the other seats' pay."""
    sums = table.summed(log_ratios)
    ends = sums[table.form.last[batch.terminal]]  # [E, seats]
    own = ends[np.arange(len(ends)), table.seat[batch.sequence]]
    of_others = (ends.sum(axis=1) - own) / max(table.seats - 1, 1)
    before = sums[table.parent[batch.sequence]]
    return np.asarray(weight * (of_others - (own - before)))


def _advantages(table: Table, policy: Floats, batch: Batch, gains: Floats) -> tuple[Floats, Floats]:
    """Return A of each action, and the turns of its information state, by sequence [Q]; 0 where there are none."""
    sums = np.bincount(batch.sequence, batch.times * gains, table.size)
    own = slice(table.seats, None)
    turns = np.zeros(table.size)
    in_state = np.bincount(table.state[batch.sequence], batch.times, len(table.actions))
    turns[own] = in_state[table.state[own]]
    seen = turns > 0
    advantages = np.zeros(table.size)
    advantages[seen] = sums[seen] / (turns[seen] * np.maximum(np.exp(policy[seen]), 1e-12))
    return advantages, turns


def _mean_returns(table: Table, batch: Batch) -> Floats:
    """Return the mean return of each seat over the batch's first turns [seats]."""
    first = table.parent[batch.sequence] < table.seats
    times, seat = batch.times[first], table.seat[batch.sequence[first]]
    sums = np.bincount(seat, times * table.returns[batch.terminal[first], seat], table.seats)
    return np.asarray(sums / np.maximum(np.bincount(seat, times, table.seats), 1e-12))


def _updated(
    policy: Floats, magnet: Floats, step: Floats, turns: Floats, weights: dict[str, float], damping: float = DAMPING
) -> Floats:
    """Return the logits at the minimum of the loss [Q]; those of states without turns stay."""
    kappa = weights["kl_old"] + damping / np.maximum(turns, 1e-12)
    total = kappa + weights["magnet"] + weights["entropy"]
    moved = (kappa * policy + weights["magnet"] * magnet + step) / total
    return np.maximum(np.where(turns > 0, moved, policy), -25.0)


def measure(seeds: Sequence[int]) -> dict[str, Any]:
    """Return the tables of both games."""
    tables = []
    for game in GAMES:
        table, conditions = Table(game), []
        for rule in RULES:
            matches = MATCHES // rule.updates
            runs = [_figures(rule, learn(table, rule, rule.updates, matches, seed)) for seed in seeds]
            conditions.append({"name": rule.name, "runs": runs})
        label = "exploitability over the last quarter of the updates"
        columns = {"end": "at the end", "rise": "rise over the last quarter"}
        table_of = {"game": game, "figure": label, "less_is_better": True, "places": 3}
        tables.append({**table_of, "columns": columns, "conditions": conditions})
    return {"seeds_used": list(seeds), "tables": tables}


def _figures(rule: Rule, course: Course) -> dict[str, float]:
    values = course.averaged if rule.average else course.newest
    quarter = values[-len(values) // 4 :]
    return {"figure": float(np.mean(quarter)), "end": values[-1], "rise": values[-1] - quarter[0]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102, 103])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    result = measure(arguments.seeds)
    if arguments.json:
        print(json.dumps(result))
        return
    for table in result["tables"]:
        for condition in table["conditions"]:
            print(f"{table['game']}: {condition['name']}:", *[f"{run['figure']:.3f}" for run in condition["runs"]])


if __name__ == "__main__":
    main()
