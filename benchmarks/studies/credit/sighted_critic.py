"""A critic that sees all seats, and counterfactuals of messages, beside the seat's own critic and the exact advantage.

    python -m benchmarks.studies.credit.sighted_critic [sighted_critic] [--seeds 0 1 2 3 4] [--json]

Each seed draws a policy, uniformly at every information state, which plays 16 batches of 128 matches, each from a start
of its own; all conditions credit the same turns. A critic's credit is that of ``gae_turn`` with λ = 0. "Exact" values
are counted out, "learned" ones those of a run's value heads (``learners.update.critic``) on an untrained pocket model
of width 64, after 1,000 steps on 4,096 other matches. Alternatives are replies drawn in a turn's place and played out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.studies.credit.value_heads import learned_values
from benchmarks.studies.runs import run_untrained
from games.aliases import full_name
from games.common.seeds import derive_seed
from games.registry import make_game
from league.config import RolesConfig
from league.config.credit import CreditConfig
from league.config.load import seat_roles
from league.lab.credit.gradient_accuracy import EXACT, RuleAccuracy, compare_rules, measure_credit, play_out
from league.lab.credit.influence import exact_influence
from league.lab.credit.matches import BatchPlan
from league.lab.credit.rules import credit_batches, parse_variant
from league.theory.exact.exploitability import PolicyTable, exact_form
from roles.role import Role

GAMES = ("tiny_hanabi", "relay_arithmetic", "leduc_poker")
CRITIC = "gae_turn:trace_decay=0"
ROWS = {  # by condition; the first is what others are compared with
    "the seat's own critic, exact": CRITIC,
    "a critic of all seats, exact": f"{CRITIC}@central",
    "1 alternative": "contribution@alternatives:count=1",
    "4 alternatives": "contribution@alternatives:count=4",
    "4 alternatives, said 4 times": "contribution@alternatives:count=4,said=4",
    "no critic: rae": "rae",
    "the exact advantage": EXACT,
}
LEARNED = {"the seat's own critic, learned": (), "a critic of all seats, learned": ("seats",)}  # what else it sees
COLUMNS = {
    "variance": "variance",
    "cosine": "cosine of a batch's gradient",
    "bias": "bias",
    "noise": "noise",
    "influence": "influence, nats",
}


def measure(seeds: Sequence[int]) -> dict[str, Any]:
    """Return one table a game: by condition, the measures of each seed."""
    tables = []
    for alias in GAMES:
        measured = [compared(full_name(alias), seed) for seed in seeds]
        tables.append(
            {
                "game": alias,
                "figure": "fidelity: cosine of the turns' credit with their exact advantages",
                "less_is_better": False,
                "columns": COLUMNS,
                "places": 3,
                "conditions": [{"name": name, "runs": [one[name] for one in measured]} for name in measured[0]],
            }
        )
    return {"tables": tables}


def compared(game: str, seed: int) -> dict[str, dict[str, float]]:
    """Return the measures by condition of one seed's policy and matches; the exact advantage last."""
    print(f"{game}, seed {seed}", file=sys.stderr, flush=True)
    roles, table = seat_roles(RolesConfig(), make_game(game).spec), drawn_table(game, seed)
    plan = BatchPlan(batch=128, group=1, seed=seed)
    rules = {rule.rule: rule for rule in compare_rules(table, roles, CreditConfig(), plan, list(ROWS.values()))[0]}
    found = {name: _figures(rules[text]) for name, text in ROWS.items()}
    found[list(ROWS)[-1]]["influence"] = fmean(exact_influence(table).values())
    learned = {name: _figures(_learned(table, roles, plan, sees)) for name, sees in LEARNED.items()}
    return dict([*list(found.items())[:2], *learned.items(), *list(found.items())[2:]])


def drawn_table(game: str, seed: int) -> PolicyTable:
    """Return a policy that is drawn uniformly from all at every information state."""
    form, rng = exact_form(game), np.random.default_rng(derive_seed("drawn policy", game, seed))
    rows = zip(form.keys, form.legal, strict=True)
    return PolicyTable(game, {key: tuple(rng.dirichlet(np.ones(len(ids))).tolist()) for key, ids in rows})


def _learned(table: PolicyTable, roles: tuple[Role, ...], plan: BatchPlan, sees: Sequence[str]) -> RuleAccuracy:
    """Return the accuracy of the credit by value heads that have learned from other matches."""
    play = play_out(table, roles, CreditConfig(), plan)
    to_learn = play_out(table, roles, CreditConfig(), plan.to_learn).batches
    evidence = learned_values(table.game, roles, to_learn, play.batches, sees, plan.seed)
    return measure_credit(play, CRITIC, credit_batches(parse_variant(CRITIC, CreditConfig()), play.batches, evidence))


def _figures(rule: RuleAccuracy) -> dict[str, float]:
    found, faithful = rule.overall, rule.faithful
    assert found.cosine is not None
    assert faithful.fidelity is not None
    assert faithful.variance is not None
    return {
        "figure": faithful.fidelity,
        "variance": faithful.variance,
        "cosine": found.cosine.mean,
        "bias": float("nan") if found.bias is None else found.bias.mean,
        "noise": found.noise or 0.0,
    }


def main() -> None:
    """Measure and print."""
    run_untrained(__doc__, "sighted_critic", measure)


if __name__ == "__main__":
    main()
