"""What training did, by a run's suite: its own games and those held out, both snapshots on the same deals."""

import pytest
from rich.console import Console

from games.common.errors import UsageError
from league.cli.training.train import print_suite
from league.config.load import load
from league.config.suite import load_suite
from league.lab.comparisons.before_and_after import FOLDER, changes, suite_of
from league.population.storage.run_dir import Run
from league.training.loop.session import train

TINY = (
    "iterations=1",
    "snapshot_every=1",
    "cold_start.steps=4",
    "cold_start.matches=8",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "model.layers=1",
    "model.vocabulary=300",
    "evaluation.matches=0",
    "evaluation.exact=false",
    "evaluation.suite_matches=4",
    'evaluation.suite_opponents=["random","itself"]',
    "board.time=0.0",
    "episodes_kept=0",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a run of the preset mars that has hardly learned, in tic-tac-toe and tiny Hanabi only."""
    games = "games={tiny_hanabi={matches=8},tic_tac_toe={matches=8}}"
    folder = tmp_path_factory.mktemp("suite") / "run"
    train(load("mars", [*TINY, games]), folder)
    return Run(folder)


@pytest.mark.parametrize("preset", ["mars", "spiral"])
def test_the_presets_train_on_no_held_out_game_and_end_with_a_table(preset):
    config = load(preset, [])
    assert config.evaluation.suite == preset
    assert config.evaluation.suite_matches > 0
    assert not set(config.games) & set(load_suite(preset).held_out)
    assert config.matchmaking.self_play == 1.0


@pytest.mark.thorough
def test_its_suite_is_its_games_and_what_is_held_out(run):
    assert suite_of(run).training == ("tiny_hanabi", "tic_tac_toe")
    assert suite_of(run).held_out == load_suite("mars").held_out


@pytest.mark.thorough
def test_both_snapshots_play_the_same_deals_and_what_was_played_is_not_played_again(run):
    played = []
    found = changes(run, played.append)
    kinds = {change.pairing.game: change.pairing.kind for change in found}
    assert kinds["tic_tac_toe"] == "training"
    assert kinds["connect_four"] == "held out"
    for change in found:
        difference = change.after.returns.mean - change.before.returns.mean
        assert change.difference.mean == pytest.approx(difference)
        assert change.before.matches == change.after.matches
    with_itself = {change.pairing.game for change in found if change.pairing.opponent == "itself"}
    assert with_itself == {"tiny_hanabi", *(game for game in load_suite("mars").held_out if "hanabi" in game)}
    assert len(played) == sum(change.before.matches + change.after.matches for change in found)
    again = []
    assert [change.difference for change in changes(run, again.append)] == [change.difference for change in found]
    assert again == []
    assert {path.name for path in (run.path / FOLDER).iterdir()} == {"before", "after"}


@pytest.mark.thorough
def test_the_table_names_every_game_and_opponent(run):
    console = Console(record=True, width=160)
    print_suite(run, console)
    text = console.export_text()
    assert "Games of mars, trained and held out" in text
    for word in ("tiny_hanabi", "connect_four", "leduc_poker", "held out", "trained", "itself"):
        assert word in text


def test_a_table_needs_a_suite():
    with pytest.raises(UsageError, match="suite_matches needs a suite"):
        load("pocket-returns", ["evaluation.suite_matches=5"])
