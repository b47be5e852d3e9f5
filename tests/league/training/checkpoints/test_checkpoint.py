"""A checkpoint gives back all that it was given, and takes back what was done after it."""

import json
from dataclasses import MISSING, fields

import pytest
from support.learning.trajectories import trajectory

from arena.records import EndReason, Episode, MatchRequest
from league.config import RunConfig
from league.population.results import journal
from league.population.storage.members import JudgedGames, MetaStrategy
from league.population.storage.population import Origin
from league.population.storage.run_dir import STATE_FOLDER
from league.training.checkpoints.checkpoint import (
    JOURNAL_FILE,
    checkpoints,
    load_checkpoint,
    save_checkpoint,
    save_ratings,
)
from league.training.checkpoints.run_state import Beginning, Checkpoint, new_state
from learners.trajectories import Evidence
from learners.trajectory_buffer import TrajectoryBuffer

CONFIG = RunConfig(games={"kuhn_poker": {}}, policies={"probe": {"league_role": "main_exploiter"}})
# Of every field something that a new run does not have.
FIELDS = {
    "iteration": 4,
    "next_match": 17,
    "rated_at": 4,
    "values": {"archer": {"q": [0.5]}},
    "credit": {"rae": {"kuhn_poker/first/main": [0.25, 3]}},
    "alarms": {"entropies": {"main": [0.5]}, "ringing": [["entropy", "main", "it fell", 3]]},
    "frozen_at": {"main": 4, "probe": 2},
    "resets": {"probe": 2},
    "origins": {"probe": Beginning(Origin.RESET, "main-000000")},
    "retired": {"main-000000"},
    "since": {0: 0, 3: 12},
    "notes": "0123456789abcdef0123456789abcdef",
    "meta": {"kuhn_poker": MetaStrategy({"main-000002": 1.0}, [(("a", "b"), 0.5)], ("a", "b"))},
    "judged": JudgedGames(("kuhn_poker",), {"kuhn_poker": "fit"}, {"kuhn_poker": ("main-000004",) * 2}, 32),
    "mixtures": {"kuhn_poker": [{"main-000002": 0.75}, {"main-000004": 1.0}]},
}
OUTSIDE = {
    "ratings_sha256",
    "journal_sha256",
    "matches_sha256",
    "starts_sha256",
}  # written when the checkpoint is saved


def match(index, players=("main", "random"), gain=1.0):
    request = MatchRequest(index, "kuhn_poker", index, index, players, (True, False))
    return Episode(request, (), (gain, -gain), EndReason.FINISHED)


def write_weights(folder):
    (folder / "model.safetensors").write_bytes(b"weights")


@pytest.fixture
def state(tmp_path):
    """Return the state of a run after four iterations, the second of which reset its exploiter; it has no models."""
    (tmp_path / STATE_FOLDER).mkdir()
    state = new_state(CONFIG, tmp_path, {})
    state.payoffs.live, state.payoffs.forgetting = frozenset({"main", "probe"}), CONFIG.matchmaking.forgetting
    for iteration in range(1, 5):
        state.iteration = iteration
        state.record([match(4 * iteration), match(4 * iteration + 1, ("probe", "main"))])
        state.ratings.update([match(4 * iteration + 2, ("main-000002", "random"))])
        if iteration == 2:
            state.payoffs.reset("probe")
        if iteration < 4:
            save_checkpoint(tmp_path, state, 2)
    state.population.add("main", 0, None, write_weights)
    state.population.add("main", 4, "main-000000", write_weights)
    resets = state.resets
    for name, value in FIELDS.items():
        setattr(state, name, value)
    assert resets == FIELDS["resets"], "the payoff table writes its resets into the record"
    return state


def default_of(field):
    return field.default if field.default is not MISSING else field.default_factory()


def test_every_field_comes_back(state, tmp_path):
    assert set(FIELDS) | OUTSIDE == {field.name for field in fields(Checkpoint)}
    assert all(FIELDS[field.name] != default_of(field) for field in fields(Checkpoint) if field.name in FIELDS)
    state.played_ahead = {5: [match(20)], 6: [match(21), match(22)]}
    gathered = [trajectory([1.0, -0.5], policy="main", match=index) for index in (16, 17)]
    state.pending = {"main": TrajectoryBuffer(2, gathered, [Evidence()] * 2, [[0.25, 0.75], [0.0, 1 / 3]], [1.0, 0.5])}
    save_ratings(tmp_path, state)
    save_checkpoint(tmp_path, state, 2)
    state.store.close()
    back = load_checkpoint(CONFIG, tmp_path, {})
    assert {name: getattr(back, name) for name in FIELDS} == FIELDS
    assert back.played_ahead == state.played_ahead
    assert back.pending == state.pending
    assert back.ratings.to_json() == state.ratings.to_json()
    assert back.unsaved == []
    assert [snapshot.id for snapshot in back.population.all()] == ["main-000000", "main-000004"]
    back.store.close()


def test_the_payoff_table_comes_back_without_what_was_reset(state, tmp_path):
    """The exploiter won a match in each iteration; those of the first two were other weights'."""
    save_ratings(tmp_path, state)
    save_checkpoint(tmp_path, state, 2)
    before = state.payoffs.to_json()
    state.store.close()
    models = dict.fromkeys(("main", "probe"))
    back = new_state(CONFIG, tmp_path, models, load_checkpoint(CONFIG, tmp_path, {}))
    back.payoffs.apply(journal.replay(tmp_path / STATE_FOLDER / JOURNAL_FILE, 4).results)
    forgetting = CONFIG.matchmaking.forgetting
    assert back.payoffs.role_records("probe", "main", "kuhn_poker")["seat 0"].n == pytest.approx(1.0 + forgetting)
    assert back.payoffs.role_records("main", "random", "kuhn_poker")["seat 0"].n == pytest.approx(
        sum(forgetting**age for age in range(4))
    )
    assert json.dumps(back.payoffs.to_json()) == json.dumps(before)
    back.store.close()


def test_what_a_killed_process_did_after_it_is_taken_back(state, tmp_path):
    save_ratings(tmp_path, state)
    save_checkpoint(tmp_path, state, 2)
    path, checksum = tmp_path / STATE_FOLDER / JOURNAL_FILE, state.journal_sha256
    journal.append(path, 5, [], checksum)
    state.store.add([match(30)], 5)
    state.population.add("main", 5, "main-000004", write_weights)
    state.store.close()
    back = load_checkpoint(CONFIG, tmp_path, {})
    assert back.store.indices() == {4 * i + k for i in range(1, 5) for k in (0, 1)}
    assert journal.replay(path, 99).checksum == checksum == back.journal_sha256
    assert [snapshot.id for snapshot in back.population.all()] == ["main-000000", "main-000004"]
    back.store.close()


def test_ratings_stay_as_long_as_the_oldest_checkpoint_refers_to_them(state, tmp_path):
    """A run can go back to any checkpoint that is kept: iterations 4 and 5, rated after 4, and 6, rated after 6."""
    for iteration, rated, ratings in ((4, True, [4]), (5, False, [4]), (6, True, [4, 6]), (7, False, [6])):
        state.iteration = iteration
        if rated:
            save_ratings(tmp_path, state)
        save_checkpoint(tmp_path, state, 2)
        kept = sorted(int(path.stem.removeprefix("ratings-")) for path in (tmp_path / STATE_FOLDER).glob("ratings-*"))
        assert kept == ratings, iteration
    assert [folder.name for folder in checkpoints(tmp_path)] == ["iteration-000006", "iteration-000007"]
    state.store.close()
