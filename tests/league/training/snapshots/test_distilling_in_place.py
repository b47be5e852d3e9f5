"""``distil.in_place``: the newest snapshot plays as the mixture of all snapshots and itself, table for table."""

import pytest
from support.processes.runs import TINY, contents

from games.registry import make_game
from league.cli import main
from league.config.load import load
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.storage.population import Origin
from league.population.storage.run_dir import Run
from league.theory.exact.exploitability import PolicyTable, exploitability
from league.training.board.metrics_log import read_metrics
from league.training.loop.evolve import evolve
from league.training.loop.session import resume, train

SETTINGS = """
evaluation.mixture = "uniform"
optimizer.learning_rate = 2e-2
distil_every = 4
[distil]
steps = 200
learning_rate = 3e-2
"""
IN_PLACE = SETTINGS + "in_place = true\n"
WITHOUT = SETTINGS.replace("distil_every = 4\n", "")


def trained(folder, text, name="run"):
    folder.mkdir(exist_ok=True)
    (folder / "tiny.toml").write_text(text)
    return train(load(str(folder / "tiny.toml")), folder / name).run_dir


def table(player, game="kuhn_poker"):
    with Engines() as engines:
        return resolve(str(player), make_game(game).spec, engines).tabulate().table


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return two runs of the same seed: one teaches its policy the mixture at iteration 4, the other does not."""
    folder = tmp_path_factory.mktemp("in_place")
    return trained(folder / "plain", TINY + SETTINGS), trained(folder / "taught", TINY + IN_PLACE)


def test_the_newest_snapshot_plays_as_the_mixture_of_all_and_itself(runs):
    """At iteration 4 the mixture of the plain run's three snapshots, by Kuhn's theorem, is what the other becomes."""
    plain, taught = runs
    ids = ["main-000000", "main-000002", "main-000004"]
    wanted = uniform_mixture([table(f"{plain}@{name}") for name in ids])
    newest, untaught = table(f"{taught}@main-000004"), table(f"{plain}@main-000004")
    assert distance(newest, wanted) < 0.02
    assert distance(untaught, wanted) > 0.1
    assert exploitability(newest) == pytest.approx(exploitability(wanted), abs=0.01)


def uniform_mixture(tables):
    """Return the behaviour of one of the tables, drawn before the match, by following each seat's own replies.

    In Kuhn poker a seat acts twice only as the first: after its own pass, answered by a bet. There members count by how
    likely they pass with that card.
    """
    mixed = {}
    for key in tables[0].probabilities:
        weights = [1.0] * len(tables)
        seat, state = key
        if seat == 0 and state.endswith("pb"):
            weights = [each.probabilities[seat, state.removesuffix("pb")][0] for each in tables]
        rows = [each.probabilities[key] for each in tables]
        mixed[key] = tuple(
            sum(weight * row[action] for weight, row in zip(weights, rows, strict=True)) / sum(weights)
            for action in range(2)
        )
    return PolicyTable("kuhn_poker", mixed)


def distance(first, second):
    """Return the greatest difference of two tables' probabilities."""
    return max(
        abs(x - y)
        for key, row in first.probabilities.items()
        for x, y in zip(row, second.probabilities[key], strict=True)
    )


def test_a_policy_that_lessons_bring_no_nearer_keeps_its_weights(runs, tmp_path):
    """One step at a rate of 1 ruins it. The first four iterations are the plain run's."""
    text = (
        (TINY + IN_PLACE)
        .replace("iterations = 6", "iterations = 4")
        .replace("3e-2", "1.0")
        .replace("steps = 200", "steps = 1")
    )
    kept, plain = Run(trained(tmp_path, text)).population, Run(runs[0]).population
    assert kept.newest("main").origin == Origin.TRAINED
    assert kept.newest("main").sha256 == plain.get("main-000004").sha256


def test_a_run_ends_with_it_whether_or_not_it_is_due(tmp_path):
    text = TINY.replace("iterations = 6", "iterations = 2") + IN_PLACE.replace("steps = 200", "steps = 40")
    newest = Run(trained(tmp_path, text)).population.newest("main")
    assert (newest.step, newest.origin, newest.parents) == (2, Origin.DISTILLED, ("main-000000",))


def test_until_then_nothing_differs(runs):
    plain, taught = map(contents, runs)
    weights = [name for name in plain if name.startswith("population/") and name.endswith("model.safetensors")]
    same = [name.split("/")[1] for name in weights if plain[name] == taught[name]]
    assert same == ["main-000000", "main-000002"]
    assert not (runs[1] / "distilled").exists()
    assert (runs[0] / "distilled").exists()


def test_its_snapshot_says_what_it_comes_from(runs):
    first, second, third, fourth = Run(runs[1]).population.all()
    assert [one.origin for one in (second, third, fourth)] == [Origin.TRAINED, Origin.DISTILLED, Origin.DISTILLED]
    assert (third.parent, third.parents) == (None, (first.id, second.id))
    assert third.how.startswith("trained, then the mixture: kuhn_poker KL ")
    own = exploitability(table(f"{runs[0]}@main-000004"))
    assert f"exploitability {own:.3f}, the mixture's " in third.how
    assert fourth.parents == (first.id, second.id, third.id)
    lines = [line for line in read_metrics(runs[1]) if "kuhn_poker/distilled_kl" in line]
    assert [line["iteration"] for line in lines] == [4, 6]
    assert 0.0 <= lines[0]["kuhn_poker/distilled_kl"] < 1e-3


@pytest.mark.parametrize("game", ["tiny_hanabi", "tic_tac_toe"])
def test_a_game_that_does_not_circle_or_has_no_tables_is_trained_as_without_it(game, tmp_path):
    text = TINY.replace("kuhn_poker.matches = 64", f"{game}.matches = 16").replace("iterations = 6", "iterations = 4")
    runs = [trained(tmp_path / name, text + its) for name, its in (("plain", WITHOUT), ("taught", IN_PLACE))]
    plain, taught = map(contents, runs)
    weights = [name for name in plain if name.startswith("population/") and name.endswith("safetensors")]
    assert len(weights) == 3
    assert [name for name in weights if plain[name] != taught[name]] == []


def test_a_game_of_common_interest_beside_it_is_not_forgotten(tmp_path):
    """Its replies are rehearsed: they stay where they were, while those in Kuhn poker move to the mixture's."""
    text = TINY.replace("iterations = 6", "iterations = 4") + "games.tiny_hanabi.matches = 32\n"
    plain, taught = (trained(tmp_path / name, text + its) for name, its in (("plain", WITHOUT), ("taught", IN_PLACE)))
    moved = {game: distance(table(plain, game), table(taught, game)) for game in ("kuhn_poker", "tiny_hanabi")}
    assert moved["kuhn_poker"] > 0.1
    assert moved["tiny_hanabi"] < 0.03


@pytest.mark.thorough
def test_a_run_that_goes_on_learns_what_it_would_have(runs, tmp_path):
    """Bit for bit: four iterations, then two more, beside six."""
    trained(tmp_path, (TINY + IN_PLACE).replace("iterations = 6", "iterations = 4"), "short")
    evolve(tmp_path / "short", tmp_path / "run", 2, [])
    resumed, whole = contents(resume(tmp_path / "run").run_dir), contents(runs[1])
    kept = [name for name in whole if name.startswith("population/")]
    assert [name for name in kept if whole[name] != resumed.get(name)] == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["async_learners.processes=each"], "async_learners.processes = 'each' has them in others"),
        (["optimizer.processes=2"], "optimizer.processes = 2 has them in others"),
        (["async_learners.mode=stream"], "async_learners.mode = 'stream' has none"),
    ],
)
def test_policies_that_learn_elsewhere_are_refused_in_a_sentence(settings, sentence, tmp_path, capsys):
    out = tmp_path / "out"
    given = ["distil_every=10", "distil.in_place=true", *settings]
    assert main(["train", "pocket", "--run-dir", str(out), *[f"--set={one}" for one in given]]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not out.exists()
