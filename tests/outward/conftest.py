"""Tests with other libraries. What .venv lacks is in .venv-outward: `make test-outward` runs them all there."""

import pytest

from league.cli import main

SMALL = {
    "iterations": 1,
    "evaluation.exact": "false",
    "roles.max_reply_tokens": 6,
    "snapshot_every": 1,
    "threads": 1,
    "games.kuhn_poker.matches": 16,
    "episodes_kept": 16,
}
SMALL |= {"model.hidden_size": 16, "model.layers": 1, "model.intermediate_size": 16, "cold_start.steps": 20}
SMALL |= {"cold_start.matches": 20, "evaluation.matches": 4}


@pytest.fixture(scope="session")
def free_run(tmp_path_factory):
    """Return the folder of a small run of free replies, which has kept its matches."""
    path = tmp_path_factory.mktemp("outward") / "run"
    words = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    assert main(["train", "pocket-free", "--run-dir", str(path), *words]) == 0
    return path
