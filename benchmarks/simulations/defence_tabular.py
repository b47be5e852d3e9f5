"""What training against an attacker on two timescales does for a main policy: exact losses by the attacker's share.

Policies are softmax tables, and learning follows exact advantages (natural policy gradient), so nothing here is sampled
but the first logits, by seed. ``plain``: both seats of the main learn against each other. ``two timescales``: each seat
of the main learns, as slowly, against an attacker in the other seat that follows the main fast: its logits go to A / τ,
a smoothed best response (Liu et al. 2023, "Rethinking Adversarial Policies", arXiv:2305.17342: the attacker on the fast
timescale, the defender on the slow one). Both mains make the same number of steps, with the same rates.

The loss at ε is what a perfect attacker wins, averaged over seats, who controls that share of his turns while the main
itself plays the others (``league lab redteam --attack control``).

    python -m benchmarks defence
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from games.registry import make_game
from league.lab.attacks.curve import policy_curve
from league.theory.exact.exploitability import PolicyTable
from league.theory.exact.sequence_form import sequence_form
from league.theory.exact.turn_values import turn_values
from league.theory.statistics import student_quantile
from roles.cards import load_roles

STEPS = {"kuhn_poker": 2_000, "leduc_poker": 400}
SEEDS = range(5)
SHARES = tuple(step / 10 for step in range(11))
SLOW, FAST = 0.5, 0.5  # rates: of the main at the first step, falling by the root; of the attacker, a share of the way
TEMPERATURE = 0.02  # τ, in half the game's range

Floats = NDArray[np.float64]


class Tables:
    """Softmax tables of one game: flat logits [P] over all actions of all information states."""

    def __init__(self, game: str) -> None:
        spec = make_game(game).spec
        self.game, self.form = game, sequence_form(game)
        self.first = np.cumsum([0, *map(len, self.form.legal)])
        counts = np.diff(self.first)
        self.seats = np.repeat([seat for seat, _ in self.form.keys], counts)  # [P]
        self._states = np.repeat(np.arange(len(counts)), counts)
        self.scale = (spec.max_return - spec.min_return) / 2.0
        self.roles = load_roles(spec)

    def probabilities(self, logits: Floats) -> Floats:
        """Return the softmax of each information state's logits [P]."""
        weights = np.exp(logits - np.maximum.reduceat(logits, self.first[:-1])[self._states])
        return np.asarray(weights / np.add.reduceat(weights, self.first[:-1])[self._states])

    def rows(self, logits: Floats) -> list[list[float]]:
        """Return the distributions by information state."""
        return [row.tolist() for row in np.split(self.probabilities(logits), self.first[1:-1])]

    def advantages(self, logits: Floats) -> Floats:
        """Return A of every action where all play these tables, in half the game's range [P]."""
        return np.nan_to_num(turn_values(self.form, self.rows(logits)).advantages) / self.scale

    def table(self, logits: Floats) -> PolicyTable:
        """Return the exact policy table."""
        rows = map(tuple, self.rows(logits))
        return PolicyTable(self.game, dict(zip(self.form.keys, rows, strict=True)))

    def losses(self, logits: Floats) -> list[float]:
        """Return what a perfect attacker wins at each of ``SHARES``."""
        table = self.table(logits)
        return [point.loss.mean for point in policy_curve(table, table, SHARES, "control", self.roles).points]


def plain(tables: Tables, logits: Floats, steps: int) -> Floats:
    """Return the main's logits after learning against itself."""
    for step in range(steps):
        logits = logits + _rate(step) * tables.advantages(logits)
    return logits


def two_timescales(tables: Tables, logits: Floats, steps: int) -> Floats:
    """Return the main's logits after learning slowly against attackers who follow it fast."""
    attacker = logits
    for step in range(steps):
        gains, answers = np.zeros_like(logits), np.zeros_like(logits)
        for seat in (0, 1):
            mine = tables.seats == seat
            advantages = tables.advantages(np.where(mine, logits, attacker))
            gains[mine], answers[~mine] = advantages[mine], advantages[~mine]
        attacker = attacker + FAST * (answers / TEMPERATURE - attacker)
        logits = logits + _rate(step) * gains
    return logits


def _rate(step: int) -> float:
    return SLOW / float(np.sqrt(1.0 + step / 10.0))


def measure(steps: dict[str, int], seeds: Sequence[int]) -> dict[str, Any]:
    """Return by game the losses of each seed before and after, and the means with their intervals."""
    games = []
    for game, count in steps.items():
        tables, losses = Tables(game), dict[str, list[list[float]]]()
        for seed in seeds:
            start = np.random.default_rng(seed).normal(size=len(tables.seats))
            after = {
                "before": start,
                "plain": plain(tables, start, count),
                "two timescales": two_timescales(tables, start, count),
            }
            for name, logits in after.items():
                losses.setdefault(name, []).append(tables.losses(logits))
            print(game, seed, {name: round(rows[-1][-1], 4) for name, rows in losses.items()}, file=sys.stderr)
        curves = [{"main": name, **with_interval(rows)} for name, rows in losses.items()]
        games.append({"game": game, "length": f"{count:,} steps", "shares": list(SHARES), "curves": curves})
    return {"seeds": list(seeds), "games": games}


def with_interval(runs: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return the mean over seeds [N, shares] with half the width of Student's 95 % interval, and all runs."""
    losses = np.array(runs)
    half = student_quantile(len(losses) - 1) * losses.std(axis=0, ddof=1) / np.sqrt(len(losses))
    return {"mean": losses.mean(axis=0).tolist(), "half": half.tolist(), "runs": losses.tolist()}


def defence_lines(result: dict[str, Any]) -> list[str]:
    """Return a table for each game: the loss by the attacker's share, of each main."""
    lines: list[str] = []
    for game in result["games"]:
        names = [curve["main"] for curve in game["curves"]]
        lines += [f"`{game['game']}`, {len(result['seeds'])} seeds, {game['length']}:", ""]
        lines += [f"| ε | {' | '.join(names)} |", "| ---: |" + " ---: |" * len(names)]
        for index, share in enumerate(game["shares"]):
            cells = [f"{curve['mean'][index]:.3f} ± {curve['half'][index]:.3f}" for curve in game["curves"]]
            lines.append(f"| {share:.1f} | {' | '.join(cells)} |")
        lines.append("")
    return lines[:-1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    result = measure(STEPS, list(SEEDS))
    print(json.dumps({"defence": result}) if parser.parse_args().json else "\n".join(defence_lines(result)))


if __name__ == "__main__":
    main()
