"""Runs that learn from preferences between siblings, and what is refused before one begins."""

import math

import pytest

from games.common.errors import UsageError
from league.config.load import load
from league.training.board.metrics_log import read_metrics
from league.training.loop.session import train

RUN = """
iterations = 12
snapshot_every = 12
threads = 1
games.relay_arithmetic.matches = 512
credit.rule = "malt"
matchmaking = { self_play = 1.0, fictitious = 0.0, tree = 2 }
objective = { name = "dpo", entropy = 0.02 }
optimizer.learning_rate = 1e-3
model = { hidden_size = 32, layers = 1, intermediate_size = 32, vocabulary = 320 }
cold_start = { steps = 20, matches = 30 }
evaluation = { exact = false, matches = 0, anchors = [] }
[roles.policy]
"relay_arithmetic/generator" = "a"
"relay_arithmetic/verifier" = "b"
"relay_arithmetic/refiner" = "c"
"""


def written(folder, text=RUN, *changes):
    (folder / "dpo.toml").write_text(text)
    return load(str(folder / "dpo.toml"), list(changes))


@pytest.mark.thorough
def test_a_run_comes_to_prefer_what_comes_out_right_in_trees_that_it_has_not_seen(tmp_path):
    """Before it learns, policy and reference are one. 0.627 of 1,200 pairs, by chance 0.5; ``ppo`` makes no pairs."""
    assert train(written(tmp_path, RUN, "policies.a.objective=ppo"), tmp_path / "run")
    first, *lines = list(read_metrics(tmp_path / "run"))[1:]
    assert first["c/margin"] == pytest.approx(0.0, abs=1e-5)
    assert first["c/loss"] == pytest.approx(math.log(2) - 0.02 * first["c/entropy"], abs=1e-4)
    assert "a/pairs" not in first
    assert 0.3 < first["relay_arithmetic/flat_groups/refiner"] < 0.9, "(1/5)² + (4/5)² = 0.68 by uniform chance"
    assert min(line["b/pairs"] for line in lines) > 0
    pairs = sum(line["c/pairs"] for line in lines)
    assert sum(line["c/pairs"] * line["c/preferred"] for line in lines) / pairs > 0.57
    assert sum(line["c/pairs"] * line["c/margin"] for line in lines) / pairs > 0.1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["credit.rule=rae"], "only credit rule 'malt' can do; relay_arithmetic/generator has 'rae'"),
        (
            ["credit.rules.relay_arithmetic/refiner=rae"],
            r"policy c .* relay_arithmetic/refiner has 'rae'. Give it that rule, or set policies.c.objective = 'ppo'",
        ),
        (["roles.reply=free", "roles.on_illegal=retry"], r"generator may retry \(roles.on_illegal\)"),
        (["objective.dpo_beta=0"], "objective.dpo_beta = 0: it should be greater than 0"),
        (
            [
                "policies.probe.league_role=main_exploiter",
                "credit.rules.relay_arithmetic/refiner=rae",
                "policies.c.objective=ppo",
            ],
            "policy probe",
        ),
    ],
)
def test_where_no_pairs_can_be_made_it_is_refused(changes, said, tmp_path):
    with pytest.raises(UsageError, match=said):
        written(tmp_path, RUN, *changes)


@pytest.mark.parametrize(
    "changes",
    [
        ["credit.rules.relay_arithmetic/refiner=rae", "policies.c.objective=ppo"],
        ["objective.name=ppo", "policies.b.objective=dpo", "roles.reply=free", "roles.on_illegal=forfeit"],
    ],
)
def test_policies_may_differ_in_it(changes, tmp_path):
    written(tmp_path, RUN, *changes)
