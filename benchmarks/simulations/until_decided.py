"""How many matches it takes to decide: until it is shown, beside a fixed number, for players of three strengths.

    python -m benchmarks.simulations.until_decided [--json]

Simulated deals of a game of win, draw and loss, each in both seatings, so that a deal's observation is the mean of two
scores. A fixed sample has as many deals as find the difference with 95 % power in a two-sided test at 5 %. The
sequential rule is that of ``league match --until 0.95``, with its looks. 10,000 matches of equal players are looked at
after every single deal, and must be decided, which is wrong, in at most 5 of 100.
"""

from __future__ import annotations

import argparse
import json
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from league.theory.confidence_sequence import looks, wealth

Floats = NDArray[np.float64]

STRENGTHS = {"slight": 0.52, "clear": 0.55, "great": 0.65}  # the stronger player's mean score
DRAWS = 0.3
POWER, LEVEL = 0.95, 0.05
RUNS, EQUAL, LONGEST = 1_000, 10_000, 12_000
BLOCK = 250  # matches simulated at once
DEALS_OF_EQUALS = 2_000


def simulate(rng: np.random.Generator, score: float, rows: int, deals: int) -> Floats:
    """Return the observations of matches: of each deal the mean of two scores with this mean.  # [rows, deals]"""
    win = score - DRAWS / 2.0
    drawn = rng.random((rows, deals, 2))
    points = np.where(drawn < win, 1.0, np.where(drawn < win + DRAWS, 0.5, 0.0))
    return np.asarray(points.mean(axis=-1))


def fixed_deals(score: float) -> int:
    """Return how many deals find the difference with this power in a test at this level."""
    win = score - DRAWS / 2.0
    variance = (win + DRAWS / 4.0 - score**2) / 2.0  # of the mean of two scores
    quantiles = NormalDist().inv_cdf(1.0 - LEVEL / 2.0) + NormalDist().inv_cdf(POWER)
    return int(np.ceil(variance * (quantiles / (score - 0.5)) ** 2))


def deals_needed(observations: Floats) -> tuple[Floats, Floats]:
    """Return after how many deals each match ends, decided or not, and whether it was rightly decided; [rows] each."""
    at = np.array(list(looks(observations.shape[1]))) - 1
    limit = 2.0 / LEVEL
    right, wrong = (wealth(side, 0.5)[:, at] >= limit for side in (observations, 1.0 - observations))
    decided = right | wrong
    first = np.where(decided.any(axis=1), decided.argmax(axis=1), len(at) - 1)
    rows = np.arange(len(first))
    return (at[first] + 1).astype(float), right[rows, first].astype(float)


def measure() -> dict[str, Any]:
    """Return the matches needed by strength, and the share of wrong decisions between equal players."""
    rng, strengths = np.random.default_rng(0), []
    for name, score in STRENGTHS.items():
        blocks = [deals_needed(simulate(rng, score, BLOCK, LONGEST)) for _ in range(RUNS // BLOCK)]
        deals, right = (np.concatenate(column) for column in zip(*blocks, strict=True))
        quantiles = {f"p{q}": 2.0 * float(np.quantile(deals, q / 100)) for q in (50, 95)}
        row = {"strength": name, "score": score, "fixed": 2 * fixed_deals(score), "mean": 2.0 * float(deals.mean())}
        strengths.append({**row, **quantiles, "right": float(right.mean())})
    wrong = [_ever_decided(simulate(rng, 0.5, BLOCK, DEALS_OF_EQUALS)) for _ in range(EQUAL // BLOCK)]
    return {
        "strengths": strengths,
        "equal": {"matches": EQUAL, "deals": DEALS_OF_EQUALS, "wrong": float(np.mean(wrong))},
    }


def _ever_decided(observations: Floats) -> float:
    sides = [(wealth(side, 0.5) >= 2.0 / LEVEL).any(axis=1) for side in (observations, 1.0 - observations)]
    return float((sides[0] | sides[1]).mean())


def decided_lines(result: dict[str, Any]) -> list[str]:
    """Return the lines of the table, and a sentence on equal players."""
    lines = [
        "| strength | mean score | matches of a fixed sample | mean until decided | median | 95 of 100 by | rightly |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in result["strengths"]:
        counts = " | ".join(f"{row[key]:,.0f}" for key in ("fixed", "mean", "p50", "p95"))
        lines.append(f"| {row['strength']} | {row['score']:.2f} | {counts} | {row['right']:.1%} |")
    equal = result["equal"]
    words = f"Of {equal['matches']:,} matches between equal players, looked at after each of {equal['deals']:,} deals, "
    return [*lines, "", f"{words}{equal['wrong']:.1%} were decided, which is wrong; 5 % are allowed."]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    result = measure()
    print(json.dumps(result) if parser.parse_args().json else "\n".join(decided_lines(result["decided"])))


if __name__ == "__main__":
    main()
