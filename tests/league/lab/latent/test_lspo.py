"""A run's player is taught the equilibrium of the game between its clusters: less can be gained against it."""

import json
import math
import shutil

import pytest
from safetensors.torch import load_file
from support.processes.runs import TINY

from games.registry import make_game
from league.cli import main
from league.config.load import load
from league.lab.latent.embedding import ngram_vectors
from league.lab.latent.latent_game import Listening, latent_game
from league.lab.latent.lspo import targets_of
from league.lab.latent.space import latent_space
from league.population.distillation.targets import reach
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.storage.population import Origin, Population
from league.training.loop.session import train

GAME = "worded(kuhn_poker,ways=3)"
SETTINGS = """
latent = { clusters = 2, matches = 16 }
distil = { steps = 120, learning_rate = 1e-2 }
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a run of two iterations, which has hardly learned anything."""
    folder = tmp_path_factory.mktemp("latent")
    small = TINY.replace("iterations = 6", "iterations = 2").replace("games.kuhn_poker", f'games."{GAME}"')
    (folder / "tiny.toml").write_text(small + SETTINGS)
    return train(load(str(folder / "tiny.toml")), folder / "run").run_dir


@pytest.fixture(scope="module")
def taught(run):
    folder = run.parent / "one"
    assert main(["latent", str(run), "-o", str(folder)]) == 0
    return folder


def exploitability(player, capsys):
    capsys.readouterr()
    assert main(["exploitability", str(player), "--game", GAME, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["exploitability"]


def test_latent_exploitability_falls_and_so_does_that_of_the_whole_game(run, taught, capsys):
    report = json.loads((taught / "lspo.json").read_text())
    (one,) = report["rounds"]
    assert (report["game"], one["states"]) == (GAME, 12)
    assert one["value"] == pytest.approx(-1 / 18, abs=1e-9)
    assert report["latent_exploitability"] == {"before": one["before"], "after": one["after"]}
    assert one["before"] > 0.2
    assert one["after"] < 0.1 * one["before"]
    assert one["kl_after"] < 0.1 * one["kl_before"]
    # Clusters are the moves, so nothing is lost: it is the exploitability of the whole game, as that command finds it.
    whole = exploitability(run, capsys), exploitability(taught, capsys)
    assert (one["before"], one["after"]) == pytest.approx(whole, abs=1e-6)
    assert tuple(report["exploitability"].values()) == pytest.approx(whole, abs=1e-6)


def test_the_clusters_are_the_moves_and_are_told_with_what_the_equilibrium_says(taught):
    clusters = json.loads((taught / "lspo.json").read_text())["rounds"][0]["clusters"]
    assert [cluster["role"] for cluster in clusters] == ["first", "first", "second", "second"]
    for cluster in clusters:
        assert cluster["size"] == len(cluster["utterances"]) == 3
        assert len({"bet" in text for text in cluster["utterances"]}) == 1
    for role in ("first", "second"):
        assert math.fsum(c["equilibrium"] for c in clusters if c["role"] == role) == pytest.approx(1.0)


def test_its_snapshot_says_what_it_comes_from(taught):
    (snapshot,) = Population(taught / "population").all()
    assert (snapshot.id, snapshot.origin, snapshot.parent) == ("main-000002", Origin.DISTILLED, None)
    assert snapshot.parents == ("run@main-000002",)
    assert snapshot.how.startswith(f"LSPO from run: {GAME} latent exploitability 0.")


@pytest.mark.thorough
def test_it_is_a_player_and_a_base(taught, run, capsys):
    assert main(["match", str(taught), str(run), "--game", GAME, "--matches", "4"]) == 0
    settings = ["--set", "iterations=1", "--set", f"model.source={taught}"]
    child = run.parent / "child"
    assert main(["train", str(run.parent / "tiny.toml"), "--run-dir", str(child), *settings]) == 0
    assert exploitability(f"{child}@main-000000", capsys) == exploitability(taught, capsys)


@pytest.mark.thorough
def test_an_equal_seed_teaches_the_same(run, taught):
    again = run.parent / "again"
    assert main(["latent", str(run), "-o", str(again), "--json"]) == 0
    first, second = (load_file(f / "population/main-000002/model.safetensors") for f in (taught, again))
    assert all((first[name] == second[name]).all() for name in first)


@pytest.mark.thorough
def test_clusters_by_hidden_states_and_free_replies_do_too(run, tmp_path, capsys):
    free = ["--set", "roles.reply=free", "--set", "roles.on_illegal=forfeit", "--set", "roles.max_reply_tokens=8"]
    settings = ["--set", "iterations=1", "--set", "snapshot_every=1", "--set", "cold_start.steps=120"]
    (tmp_path / "plain.toml").write_text(TINY + SETTINGS)
    words = ["train", str(tmp_path / "plain.toml"), "--run-dir", str(tmp_path / "free"), *free, *settings]
    assert main(words) == 0
    for source, game in ((run, GAME), (tmp_path / "free", "kuhn_poker")):
        capsys.readouterr()
        out = tmp_path / f"out-{source.name}"
        words = ["latent", str(source), "-o", str(out), "--json", "--set", "latent.embedding=states"]
        assert main([*words, "--set", "latent.clusters=6", "--set", "latent.rounds=2"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["game"] == game
        gained = report["latent_exploitability"]
        assert gained["after"] < 0.5 * gained["before"]


def test_targets_are_the_equilibrium_between_clusters_and_the_player_within(run):
    with Engines() as engines:
        player = resolve(str(run), make_game(GAME).spec, engines)
        said = {role.name: make_game(GAME).legal_actions() for role in player.roles}
        space = latent_space(said, {role.name: ngram_vectors for role in player.roles}, 2, 0)
        game = latent_game(player, space, Listening(samples=1, members=8, seed=0))
        _, equilibrium = game.equilibrium()
        targets = targets_of(game, equilibrium, player.roles)
    reached = [index for index, weight in enumerate(reach(game.form, equilibrium)) if weight > 0.0]
    assert len(reached) == len(targets) > 6
    assert math.fsum(target.weight for target in targets) == pytest.approx(1.0)
    for index, target in zip(reached, targets, strict=True):
        heard, row = game.said[index], dict(zip(game.form.legal[index], equilibrium[index], strict=True))
        assert target.chat[-1]["content"] == heard.match.observe(game.form.keys[index][0])
        within = [u.share / heard.mass(cluster) for u, cluster in zip(heard.said, heard.clusters, strict=True)]
        wanted = [row[cluster] * share for cluster, share in zip(heard.clusters, within, strict=True)]
        assert target.probabilities == pytest.approx(wanted, abs=1e-9)
        assert target.legal == tuple(utterance.text for utterance in heard.said)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["latent", "nothing", "-o", "{out}"], "There is no run named 'nothing'"),
        (["latent", "{run}@main-000009", "-o", "{out}"], "named 'main-000009'"),
        (["latent", "{run}", "-o", "{run}"], "is not empty"),
        (["latent", "{run}", "-o", "{out}", "--game", "kuhn_poker"], "There is no game of"),
        (["latent", "{run}", "-o", "{out}", "--set", "latent.clusters=0"], "latent.clusters"),
        (["latent", "{run}", "-o", "{out}", "--set", "latent.embedding=words"], "latent.embedding"),
        (["latent", "{two}", "-o", "{out}"], "has several games"),
        (["latent", "{two}", "-o", "{out}", "--game", "tiny_hanabi"], "not a game of two seats in which one wins"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(run, tmp_path, capsys, words, sentence):
    places = {"run": run, "two": two_games(run), "out": tmp_path / "out"}
    capsys.readouterr()
    assert main([word.format(**places) for word in words]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def two_games(run):
    """Return a copy of the run whose configuration names another game too."""
    copy = run.parent / "two"
    if not copy.exists():
        shutil.copytree(run, copy)
        config = copy / "config.toml"
        config.write_text(config.read_text() + "\n[games.tiny_hanabi]\nmatches = 8\n")
    return copy
