"""Runs that learn from whole matches (``kto``, ``dmpo``), and what is refused before one begins."""

import pytest

from games.common.errors import UsageError
from league.config.load import load
from league.training.board.metrics_log import read_metrics
from league.training.loop.session import train

RUN = """
iterations = 25
snapshot_every = 25
threads = 1
games.tiny_hanabi.matches = 256
games.tiny_hanabi.entropy = 0.02
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


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["kto", "dmpo"])
def test_two_seats_come_to_earn_more_together(name, tmp_path):
    """Before it learns, policy and reference are one. Expected returns, exact; the best is 10."""
    assert train(written(tmp_path, f"objective.name={name}"), tmp_path / "run")
    begin, first, *_, last = list(read_metrics(tmp_path / "run"))
    assert last["tiny_hanabi/return"] > begin["tiny_hanabi/return"] + 0.8
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
        (["objective.name=dmpo", "matchmaking.group_size=1"], "several matches of tiny_hanabi from one start"),
        (["policies.main.objective=dmpo", "matchmaking.group_size=1"], "or take another objective, such as 'kto'"),
        (
            ["optimizer.sharded=true", "optimizer.processes=2", "roles.reply=free", "roles.on_illegal=forfeit"],
            "'kto' adds passes to an update, which sharded processes",
        ),
        (["objective.policy_gradient=0.5"], "weights advantages, but kto prefers one reply"),
        (["objective.dmpo_gamma=0"], "objective.dmpo_gamma = 0: it should be greater than 0"),
        (["objective.kto_desirable=2"], "objective.kto_desirable = 2 is no longer a setting. Good and bad"),
    ],
)
def test_what_cannot_be_judged_is_refused(changes, said, tmp_path):
    with pytest.raises(UsageError, match=said):
        written(tmp_path, *changes)
