"""Runs that learn from whole matches (``kto``, ``dmpo``), and what is refused before one begins."""

import pytest

from games.common.errors import UsageError
from league.config.load import load
from league.monitors.metrics_log import read_metrics
from league.run.session import train

RUN = """
iterations = 20
snapshot_every = 20
threads = 1
games.kuhn_poker.matches = 256
games.kuhn_poker.entropy = 0.01
matchmaking = { self_play = 1.0, fictitious = 0.0, group_size = 8 }
objective = { name = "kto", dpo_beta = 0.5 }
optimizer = { learning_rate = 3e-3, inner_steps = 2 }
model = { hidden_size = 32, layers = 1, intermediate_size = 32, vocabulary = 320 }
cold_start = { steps = 20, matches = 30 }
evaluation = { matches = 0, anchors = [] }
"""


def written(folder, *changes):
    (folder / "whole.toml").write_text(RUN)
    return load(str(folder / "whole.toml"), list(changes))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kto", "dmpo"])
def test_a_run_is_exploited_less(name, tmp_path):
    """Before it learns, policy and reference are one. 0.48 falls to 0.33 (kto) and 0.36 (dmpo); uniform play has 11/24."""
    assert train(written(tmp_path, f"objective.name={name}"), tmp_path / "run")
    begin, first, *_, last = list(read_metrics(tmp_path / "run"))
    assert last["kuhn_poker/exploitability"] < min(begin["kuhn_poker/exploitability"], 11 / 24) - 0.05
    if name == "kto":
        assert first["main/reference_point"] == pytest.approx(0.0, abs=1e-5)
        assert first["main/score_desirable"] == pytest.approx(0.0, abs=1e-4)
        assert last["main/score_desirable"] > last["main/score_undesirable"] + 0.1
    else:
        assert first["main/margin"] == pytest.approx(0.0, abs=1e-4)
        assert last["main/preferred"] > 0.5
        assert last["main/margin"] > 0.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["objective.name=dmpo", "matchmaking.group_size=1"], "several matches of kuhn_poker from one start"),
        (["policies.main.objective=dmpo", "matchmaking.group_size=1"], "or take another objective, such as 'kto'"),
        (
            ["optimizer.sharded=true", "optimizer.processes=2"],
            "'kto' adds passes to an update, which processes with shards",
        ),
        (["objective.policy_gradient=0.5"], "weighs advantages, and kto prefers replies"),
        (["objective.dmpo_gamma=0"], "objective.dmpo_gamma = 0: it should be greater than 0"),
        (["objective.kto_desirable=-1"], "objective.kto_desirable = -1: it should be greater than or equal to 0"),
    ],
)
def test_what_cannot_be_judged_is_refused(changes, said, tmp_path):
    with pytest.raises(UsageError, match=said):
        written(tmp_path, *changes)
