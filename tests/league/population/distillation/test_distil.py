"""One model in place of a mixture plays as the mixture does, and is a player, a parent and a base like any other."""

import json

import pytest
from safetensors.torch import load_file
from support.processes.runs import TINY, contents

from league.cli import main
from league.config.load import load
from league.population.distillation.distil import GameResult, Worth, warning
from league.population.storage.population import Origin, Population
from league.population.storage.run_dir import Run
from league.training.board.metrics_log import read_metrics
from league.training.loop.evolve import evolve
from league.training.loop.session import resume, train

SETTINGS = """
distil_every = 2
distil = { steps = 50, matches = 32, learning_rate = 5e-3 }
optimizer.learning_rate = 2e-2
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a run of six iterations whose snapshots differ."""
    folder = tmp_path_factory.mktemp("distil")
    (folder / "tiny.toml").write_text(TINY + SETTINGS)
    return train(load(str(folder / "tiny.toml")), folder / "run").run_dir


@pytest.fixture(scope="module")
def distilled(run):
    folder = run.parent / "one"
    assert main(["distil", f"{run}@mixture", "-o", str(folder)]) == 0
    return folder


def exploitability(player, capsys):
    assert main(["exploitability", str(player), "--game", "kuhn_poker", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["exploitability"]


def test_it_plays_as_the_mixture_does(run, distilled, capsys):
    report = json.loads((distilled / "distilled.json").read_text())
    capsys.readouterr()
    kuhn = report["games"]["kuhn_poker"]
    assert kuhn["exact"]
    assert kuhn["situations"] == 12
    assert kuhn["measure"] == "exploitability"
    assert kuhn["target"] == pytest.approx(exploitability(f"{run}@mixture", capsys), abs=1e-6)
    assert kuhn["before"] == pytest.approx(exploitability(run, capsys), abs=1e-6)
    assert kuhn["after"] == pytest.approx(exploitability(distilled, capsys), abs=1e-6)
    assert kuhn["kl_before"] > 1e-3
    assert kuhn["kl_after"] < 0.05 * kuhn["kl_before"]
    assert kuhn["after"] == pytest.approx(kuhn["target"], abs=0.02)


def test_its_snapshot_says_what_it_comes_from(run, distilled):
    (snapshot,) = Population(distilled / "population").all()
    assert (snapshot.id, snapshot.origin, snapshot.parent) == ("main-000006", Origin.DISTILLED, None)
    assert snapshot.parents == ("run@main-000000", "run@main-000002", "run@main-000004", "run@main-000006")
    assert snapshot.how.startswith("distilled from run@mixture: kuhn_poker KL ")
    card = json.loads((snapshot.path / "snapshot.json").read_text())
    assert (tuple(card["parents"]), card["how"]) == (snapshot.parents, snapshot.how)


def test_a_game_without_tables_is_distilled_by_play(run, capsys):
    """The same game, as if it were too large: the mixture's average is the target all the same."""
    folder = run.parent / "played"
    settings = ["--set", "evaluation.exact_limit=5", "--set", "distil.matches=64"]
    assert main(["distil", f"{run}@mixture", "-o", str(folder), "--json", *settings]) == 0
    report = json.loads(capsys.readouterr().out)
    kuhn = report["games"]["kuhn_poker"]
    assert not kuhn["exact"]
    assert (kuhn["target"], kuhn["after"]) == (None, None)
    assert 0.0 <= kuhn["kl_after"] < 0.2 * kuhn["kl_before"]
    mixture = exploitability(f"{run}@mixture", capsys)
    assert exploitability(folder, capsys) == pytest.approx(mixture, abs=0.05)


@pytest.mark.thorough
def test_the_same_seed_distils_the_same_model(run, distilled):
    folder = run.parent / "again"
    assert main(["distil", str(run), "-o", str(folder), "--json"]) == 0
    first, second = (load_file(f / "population/main-000006/model.safetensors") for f in (distilled, folder))
    assert all((first[name] == second[name]).all() for name in first)


def test_it_is_a_player_and_a_base(run, distilled, capsys):
    assert main(["match", str(distilled), f"{run}@distilled", "--game", "kuhn_poker", "--matches", "4"]) == 0
    settings = ["--set", "iterations=1", "--set", f"model.source={distilled}", "--set", "distil_every=0"]
    child = run.parent / "child"
    assert main(["train", str(run.parent / "tiny.toml"), "--run-dir", str(child), *settings]) == 0
    capsys.readouterr()
    weights = [f / "population" / name / "model.safetensors" for f, name in ((distilled, "main-000006"),)]
    start = child / "population/main-000000/model.safetensors"
    base, begun = load_file(weights[0]), load_file(start)
    assert base.keys() == begun.keys()
    assert all((base[name] == begun[name]).all() for name in base)
    # It reads the words that it has learned to read: with others it would play as if it had learned nothing.
    assert exploitability(f"{child}@main-000000", capsys) == exploitability(distilled, capsys)


def test_a_run_distils_while_it_trains_and_learns_the_same(run, tmp_path):
    ids = [snapshot.id for snapshot in Run(run).distilled.all()]
    assert ids == ["main-000002", "main-000004", "main-000006"]
    lines = [line for line in read_metrics(run) if "kuhn_poker/distilled_exploitability" in line]
    assert [line["iteration"] for line in lines] == [2, 4, 6]
    assert lines[-1]["kuhn_poker/distilled_exploitability"] == pytest.approx(
        lines[-1]["kuhn_poker/mixture_exploitability"], abs=0.02
    )
    (tmp_path / "plain.toml").write_text((TINY + SETTINGS).replace("distil_every = 2", "distil_every = 0"))
    plain = train(load(str(tmp_path / "plain.toml")), tmp_path / "run").run_dir
    with_it, without = contents(run), contents(plain)
    trained = [name for name in without if name.startswith("population/")]
    assert trained
    assert [name for name in trained if with_it[name] != without[name]] == []


@pytest.mark.thorough
def test_a_run_that_goes_on_distils_what_it_would_have(run, tmp_path):
    """Bit for bit: four iterations, then two more, beside six."""
    (tmp_path / "short.toml").write_text((TINY + SETTINGS).replace("iterations = 6", "iterations = 4"))
    train(load(str(tmp_path / "short.toml")), tmp_path / "short")
    evolve(tmp_path / "short", tmp_path / "run", 2, [])
    resumed = contents(resume(tmp_path / "run").run_dir)
    whole = contents(run)
    kept = [name for name in whole if name.startswith(("population/", "distilled/"))]
    assert [name for name in kept if whole[name] != resumed.get(name)] == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["distil", "nothing@mixture", "-o", "{out}"], "There is no run named 'nothing'"),
        (["distil", "{run}@main-000002", "-o", "{out}"], "single snapshot, which needs no distillation"),
        (["distil", "{run}@mixture", "-o", "{run}"], "is not empty"),
        (["match", "{one}@distilled", "random", "--game", "kuhn_poker"], "has no distilled snapshot"),
        (
            ["train", "pocket", "--set", "distil_every=15", "--run-dir", "{out}"],
            "not a multiple of snapshot_every = 10",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(run, distilled, tmp_path, capsys, words, sentence):
    places = {"run": run, "one": distilled, "out": tmp_path / "out"}
    assert main([word.format(**places) for word in words]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("worth", "part"),
    [
        (Worth("return", 9.997, 9.99, 9.612), "More distil.steps may help."),
        (Worth("return", 9.997, 9.6, 9.612), "The mixture itself is worse"),
        (Worth("exploitability", 0.05, 0.03, 0.2), "the snapshot that this model starts from is better in tiny_hanabi"),
        (Worth("return", 9.6, 9.9, 9.9), ""),
        (Worth("return", 9.997, 9.99, 9.99), ""),
        (None, ""),
    ],
)
def test_a_model_that_became_worse_than_its_beginning_gets_a_warning(worth, part):
    said = warning(GameResult("tiny_hanabi", True, 8, 0.1, 0.0, worth))
    assert part in said
    assert bool(said) == bool(part)
