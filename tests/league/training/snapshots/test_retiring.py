"""Who retires from a population, and that nobody meets those who have: worked by hand, without a model."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from league.config import RunConfig
from league.config.context import run_context
from league.population.storage.members import MetaStrategy
from league.training.checkpoints.run_state import RunState, new_state
from league.training.snapshots.freeze import Snapshots
from league.training.snapshots.measure import Measurements

GAME = "kuhn_poker"
ENGINE = SimpleNamespace(register=lambda *source, **how: None)
POLICIES = {"main": SimpleNamespace(lm=None)}


def config_with(keep: int, mixture: str = "nash") -> RunConfig:
    evaluation = {"mixture": mixture, "pairing": "round_robin", "matches": 2, "anchors": ["random"]}
    return RunConfig(games={GAME: {}}, matchmaking={"keep": keep}, evaluation=evaluation)


def state_of(run_dir: Path, config: RunConfig, snapshots: int) -> RunState:
    state = new_state(config, run_dir, POLICIES)
    for step in range(snapshots):
        write = lambda folder: (folder / "model.safetensors").write_bytes(b"weights")  # noqa: E731
        state.population.add("main", step, f"main-{step - 1:06d}" if step else None, write)
    return state


@pytest.mark.parametrize(
    ("keep", "mixture", "retired"),
    [
        (4, "nash", {2}),  # the oldest that nobody needs
        (2, "nash", {2, 3}),  # 0 is in a line-up and 1 in the mixture, and the newest never retires
        (2, "linear", {1, 2, 3}),  # weights by age are no need
        (5, "nash", set()),
        (9, "nash", set()),
    ],
)
def test_the_oldest_retire_but_for_those_that_carry_weight(tmp_path, keep, mixture, retired):
    config = config_with(keep, mixture)
    state = state_of(tmp_path, config, 5)
    state.mixtures = {GAME: [{"main-000001": 1.0, "main-000002": 1e-12}, {"main-000001": 1.0}]}
    state.meta = {GAME: MetaStrategy(joint=[(("main-000000", "main-000000"), 1.0)])}
    snapshots = Snapshots(run_context(config, tmp_path), state, ENGINE, None)
    snapshots._retire()
    assert state.retired == {f"main-{step:06d}" for step in retired}
    left = [f"main-{step:06d}" for step in range(5) if step not in retired]
    assert [member.id for member in snapshots.members()] == left
    state.store.close()


def test_a_snapshot_with_weight_in_a_meta_strategy_stays(tmp_path):
    config = config_with(1)
    state = state_of(tmp_path, config, 3)
    state.meta = {GAME: MetaStrategy({"main-000000": 0.25, "main-000001": 0.0, "main-000002": 0.75})}
    Snapshots(run_context(config, tmp_path), state, ENGINE, None)._retire()
    assert state.retired == {"main-000001"}
    state.store.close()


def test_a_new_snapshot_is_not_rated_against_those_who_retired(tmp_path):
    config = config_with(1)
    state = state_of(tmp_path, config, 4)
    state.retired = {"main-000000", "main-000002"}
    met = set()

    def play(requests):
        met.update(player for request in requests for player in request.players)
        return []

    measurements = Measurements(run_context(config, tmp_path), state, ENGINE, play)
    *earlier, newest = state.population.all()
    measurements.rate_snapshot(newest, earlier)
    assert met == {"main-000003", "main-000001", "random"}
    state.store.close()
