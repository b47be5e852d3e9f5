"""How near credit rules come to the exact gradient, in small games under uniform play.

    python -m benchmarks.studies.credit.microscope [microscope] [--seeds 0 1 2 3 4] [--json]

Each seed is 16 batches of 512 matches in groups of 8, as `league credit GAME` plays them; all rules credit the same
turns.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.studies.runs import run_untrained
from games.aliases import full_name
from games.registry import make_game
from league.config import RolesConfig
from league.config.credit import CreditConfig
from league.config.load import seat_roles
from league.lab.credit.gradient_accuracy import RuleAccuracy, compare_rules
from league.lab.credit.matches import BatchPlan
from league.theory.exact.exploitability import uniform_table

GAMES = ("kuhn_poker", "leduc_poker", "small_sheriff", "hex(board_size=3)", "tiny_hanabi")
RULES = ("rae", "mars", "rloo", "grpo", "gigpo", "at_grpo", "comas", "gae_turn", "gae_turn:trace_decay=0")
COLUMNS = {"bias": "bias", "noise": "noise", "wrong_sign": "wrong sign"}
NAMES = {"gae_turn": "gae_turn, exact values", "gae_turn:trace_decay=0": "gae_turn, exact values, λ = 0"}


def measure(seeds: Sequence[int]) -> dict[str, Any]:
    """Return one table a game: by rule, the cosine, bias, noise and share of wrong signs of each seed."""
    tables = []
    for alias in GAMES:
        measured = [_compared(full_name(alias), seed) for seed in seeds]
        conditions = [
            {"name": NAMES.get(row[0].rule, row[0].rule), "runs": [_run(rule) for rule in row]}
            for row in zip(*measured, strict=True)
        ]
        conditions.append(conditions.pop(0))  # the exact advantage last: the first is what others are compared with
        tables.append(
            {
                "game": alias,
                "figure": "cosine of a batch's gradient with the exact one",
                "less_is_better": False,
                "columns": COLUMNS,
                "conditions": conditions,
            }
        )
    return {"tables": tables}


def _compared(game: str, seed: int) -> list[RuleAccuracy]:
    """Return the accuracy of the exact advantage and of the rules."""
    print(f"{game}, seed {seed}", file=sys.stderr, flush=True)
    roles = seat_roles(RolesConfig(), make_game(game).spec)
    return compare_rules(uniform_table(game), roles, CreditConfig(), BatchPlan(seed=seed), RULES)[0]


def _run(rule: RuleAccuracy) -> dict[str, float]:
    found = rule.overall
    assert found.cosine is not None
    bias = float("nan") if found.bias is None else found.bias.mean
    return {
        "figure": found.cosine.mean,
        "bias": bias,
        "noise": found.noise or 0.0,
        "wrong_sign": found.wrong_sign or 0.0,
    }


def main() -> None:
    """Measure and print."""
    run_untrained(__doc__, "microscope", measure)


if __name__ == "__main__":
    main()
