"""Policies that swap seats bring along what every seat needs."""

import pytest

from league.config.load import load
from league.training.board.metrics_log import read_metrics
from league.training.loop.session import train

RUN = """
iterations = 4
snapshot_every = 4
threads = 1
games.pair_arithmetic.matches = 32
roles.policy = { "pair_arithmetic/pioneer" = "a", "pair_arithmetic/observer" = "b" }
credit.rules = { "pair_arithmetic/observer" = "gae_turn" }
matchmaking = { self_play = 1.0, fictitious = 0.0, swap_every = 1 }
model = { hidden_size = 32, layers = 1, intermediate_size = 32, vocabulary = 320 }
cold_start = { steps = 2, matches = 8 }
evaluation = { exact = false, matches = 0, anchors = [] }
"""


def test_a_critic_values_its_role_whoever_sits_there(tmp_path):
    """Only the observer's turns are estimated: those of b at first, then of a, and so on in turn."""
    (tmp_path / "swap.toml").write_text(RUN)
    assert train(load(str(tmp_path / "swap.toml")), tmp_path / "run")
    lines = list(read_metrics(tmp_path / "run"))[1:]
    fitted = [[name for name in "ab" if f"{name}/critic/loss" in line] for line in lines]
    assert fitted == [["b"], ["a"], ["b"], ["a"]]
    for line in lines:
        assert line["pair_arithmetic/score/pioneer"] + line["pair_arithmetic/score/observer"] == pytest.approx(1.0)
