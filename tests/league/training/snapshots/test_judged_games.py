"""A run trains the games that are neither trivial nor impossible, and resumes with them bit for bit."""

import json
from itertools import pairwise
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file
from support.processes.runs import TINY, contents

from games.common.errors import UsageError
from league.config.context import run_context
from league.config.load import load, run_roles
from league.lab.breeding.breeding import budget_of
from league.population.storage.population import Origin, Population
from league.training.board.metrics_log import read_metrics
from league.training.checkpoints.checkpoint import newest_checkpoint, verified_record
from league.training.checkpoints.run_state import Beginning
from league.training.loop.evolve import Replacement, evolve
from league.training.loop.session import resume, train
from league.training.snapshots.judged_games import BEST, NEWEST, _best, budget, sentence

HARD, EASY = "sums(digits=9,base=5)", "sums(digits=1,base=2)"
SETTINGS = """
games."sums(digits=9,base=5)".matches = 32
games."sums(digits=1,base=2)".matches = 32
curriculum = { matches = 16, better = 0.0 }
"""


def written(tmp_path, settings=SETTINGS):
    path = tmp_path / "judged.toml"
    path.write_text(TINY.replace("iterations = 6", "iterations = 4") + settings)
    return str(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judged")
    train(load(written(folder)), folder / "whole")
    return folder / "whole"


def test_what_is_impossible_gives_its_matches_to_the_others(whole):
    """One in 5^(n+1) random answers to n columns is right, so nobody is better than the control."""
    lines = list(read_metrics(whole))
    assert lines[0][f"{HARD}/curriculum/active"] == 0.0
    assert lines[0][f"{HARD}/curriculum/better"] <= 0.1
    for line in lines[1:3]:
        matches = {game: line[f"{game}/matches"] for game in ("kuhn_poker", EASY, HARD)}
        assert matches[HARD] == 8, "a quarter of its own"
        assert sum(matches.values()) == 128, "as many matches as all games have"
    judged = verified_record(newest_checkpoint(whole)).judged
    assert judged.fitness[HARD] == "impossible"


def test_what_judging_took_is_counted_and_within_the_budget(whole):
    """Three snapshots; 16 matches of newest and control in each of three games, and of the best where it is another."""
    config = load(str(whole / "config.toml"))
    assert budget(run_context(config, whole)) == "Budget: 512 training matches and 432 that judge games, at most."
    spent = [line["curriculum/matches"] for line in read_metrics(whole) if "curriculum/matches" in line]
    assert spent[0] == 96.0, "the first snapshot is the best"
    assert all(96 <= after - before <= 144 for before, after in pairwise(spent))
    assert len(spent) == 3
    assert next(read_metrics(whole))["curriculum/percentile_10"] == 1.0


@pytest.mark.parametrize(("kept", "trained"), [(0.25, "are trained in full; "), (0.0, "are trained; ")])
def test_a_sentence_says_whether_games_that_are_not_drawn_rest(whole, kept, trained):
    config = load(str(whole / "config.toml"), [f"curriculum.kept={kept}"])
    state = SimpleNamespace(iteration=4, judged=verified_record(newest_checkpoint(whole)).judged)
    told = sentence(run_context(config, whole), state)
    assert told.startswith(f"Iteration 4: {len(state.judged.active)} of 3 games {trained}")
    assert "impossible: sums(digits=9,base=5)" in told


def test_a_bound_on_matches_is_never_exceeded(tmp_path):
    config = load(written(tmp_path), ["curriculum.most_matches=144", "iterations=2"])
    train(config, tmp_path / "run")
    judged = verified_record(newest_checkpoint(tmp_path / "run")).judged
    assert judged.matches == 96, "once more would be 192 at most"
    assert judged.fitness[HARD] == "impossible", "what was found holds"


def test_a_run_that_was_stopped_ends_bit_for_bit_as_the_whole_one(whole, tmp_path):
    config = load(str(whole / "config.toml"))
    train(config, tmp_path / "run", watch=lambda iteration, _: iteration == 3)
    resume(tmp_path / "run")
    assert contents(tmp_path / "run") == contents(whole)


def test_a_run_that_goes_on_keeps_what_its_games_came_to(whole, tmp_path):
    """As a generation does: the best so far, which another must beat, and the games that are trained."""
    evolve(whole, tmp_path / "next", 2, [])
    before, after = (verified_record(newest_checkpoint(run)).judged for run in (whole, tmp_path / "next"))
    assert before == after


def test_weights_that_are_replaced_begin_with_all_games(whole, tmp_path):
    """A generation that begins again, or from a distilled mixture, was judged in no game yet; the best stays."""
    newest = Population(whole / "population").newest("main")
    weights = load_file(newest.path / "model.safetensors")
    beginning = Beginning(Origin.RESET, newest.id)
    evolve(whole, tmp_path / "next", 2, [], {"main": Replacement(beginning, weights)})
    before, after = (verified_record(newest_checkpoint(run)).judged for run in (whole, tmp_path / "next"))
    assert before.active
    assert after == before._replace(active=())


def test_breeding_tells_its_matches_beforehand(tmp_path):
    """Two members; each has 512 training matches and judges 144 at each of three snapshots."""
    settings = ["descent.members=2", "descent.generations=2"]
    told = budget_of(load(written(tmp_path), settings))
    assert str(told).endswith(f"8 iterations of {2 * (512 + 3 * 144):,} matches at most")


def test_the_best_gives_way_only_to_a_better_score_on_the_same_deals():
    newest, best = ("main-000004",), ("main-000002",)
    assert _best({NEWEST: [0.5, 0.5], BEST: [0.0, 1.0]}, newest, best) == best
    assert _best({NEWEST: [0.5, 0.6], BEST: [0.0, 1.0]}, newest, best) == newest
    assert _best({NEWEST: [0.0]}, newest, None) == newest


def test_standings_and_report_tell_the_percentiles(whole, capsys):
    from league.cli import main

    assert main(["standings", str(whole), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["percentiles"]
    lines = [line for line in read_metrics(whole) if "curriculum/percentile_50" in line]
    assert [point["value"] for point in told["50"]] == [line["curriculum/percentile_50"] for line in lines]
    assert main(["standings", str(whole)]) == 0
    assert "share of the best score so far, percentiles over games: 10th 1.000 → " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["curriculum.most_matches=10"], "is less than the 144 matches that judge the games once"),
        (["games.kuhn_poker.every=2"], "the curriculum decides when a game is played"),
        (["branching.rule=entropy"], "has a budget for each game's own matches"),
        (['games."sums(digits={1..20},base={2..10})".matches=8'], "stands for 180 games"),
        (['games."sums(digits={1,2},base=2)".matches=8'], "twice, the second time as"),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_sentence(tmp_path, settings, sentence):
    with pytest.raises(UsageError, match=sentence):
        load(written(tmp_path), settings)


def test_without_the_table_nothing_is_judged(tmp_path):
    config = load(written(tmp_path, ""))
    assert list(run_roles(config)) == ["kuhn_poker"]
    train(config, tmp_path / "run", watch=lambda *_: True)
    assert not any("curriculum" in name for line in read_metrics(tmp_path / "run") for name in line)
