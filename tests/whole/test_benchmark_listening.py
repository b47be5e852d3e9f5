"""The study of hearers who listen first: its conditions, single states, bits of what players go by, and its table."""

from math import log2
from types import SimpleNamespace

import pytest
import tomli_w

import league.lab.latent.utterances
from benchmarks.report.comparison import comparison_lines
from benchmarks.studies.language import listening
from games.registry import make_game
from league import train
from league.config import load as settings
from league.population.players.engines import Engines
from league.population.players.player import resolve


def test_only_villager_1_learns_beside_a_given_partner(tmp_path):
    (tmp_path / "study.toml").write_text(tomli_w.dumps(listening.settings_of("random", {"listening": {"weight": 0.3}})))
    config = settings.load(str(tmp_path / "study.toml"), [])
    given = {role.partition("/")[2]: player for role, player in config.roles.player.items()}
    assert given == {"wolf": "scripted:good"} | {f"villager_{number}": "random" for number in (2, 3, 4)}
    assert config.beliefs.asked
    assert (config.beliefs.listening.on, config.beliefs.speaking.on) == (True, False)


def test_variants_of_a_single_state_differ_in_one_line():
    states = list(listening.single_states(7))
    assert len(states) == listening.STATES
    for turns, votes in states:
        assert {game.to_act() for game in turns} == {1}
        assert {game.to_act() for game in votes} == {2}
        for games, seat, number, begins in ((turns, 1, 4, "Your clue: "), (votes, 2, 5, "I suspect ")):
            seen = [game.observe(seat).splitlines() for game in games]
            differing = [lines for lines in zip(*seen, strict=True) if len(set(lines)) > 1]
            assert len(differing) == 1
            assert len(set(differing[0])) == number
            assert all(begins in line for line in differing[0])
            assert len({game.legal_actions() for game in games}) == 1
    claims = [turns[0].claims() for turns, _ in states]
    assert len({len(claim) for claim in claims}) > 2, "others speak before it, or not"


@pytest.mark.parametrize(("share", "bits"), [(0.2, 0.0), (1.0, 2.0), (0.6, None)])
def test_who_names_its_clue_tells_two_bits_of_four_and_who_draws_tells_none(share, bits, monkeypatch):
    """A share p on the clue and the rest on the four others alike: log2 5-like entropies, by the formula."""

    def utterances(player, positions, samples, seed):
        rows = []
        for seat, game in positions:
            clue = next(line for line in game.observe(seat).splitlines() if "Your clue" in line)[11:].partition(".")[0]
            labels = game.legal_actions()
            rest = (1 - share) / (len(labels) - 1)
            rows.append([SimpleNamespace(share=share if label.endswith(clue) else rest) for label in labels])
        return rows

    monkeypatch.setattr(league.lab.latent.utterances, "utterances", utterances)
    turns = [turns for turns, _ in listening.single_states(3)]
    if bits is None:  # each name has (p + 3 r) / 4 in the mean, nobody r
        rest = (1 - share) / 4
        name = (share + 3 * rest) / 4
        mean = -4 * name * log2(name) - rest * log2(rest)
        bits = mean + share * log2(share) + 4 * rest * log2(rest)
    assert listening.goes_by(None, 1, turns) == pytest.approx(bits, abs=1e-9)


@pytest.mark.thorough
def test_bayesians_tell_bayesians_something_and_random_speakers_do_not(monkeypatch):
    monkeypatch.setattr(listening, "HELD_OUT", 40)
    found = listening.play_beside("scripted:bayes", "scripted:bayes", 101)
    assert found["figure"] > 0.1
    assert found["heard"] > found["before"] > 0.4
    assert listening.measure_pair("random", "scripted:bayes", 101)["before"] > 0.4, "the hearers are the Bayesians"
    assert listening.measure_pair("scripted:bayes", "random", 101)["figure"] == pytest.approx(0.0)


def test_figures_become_a_table_and_speakers_learn_beside_their_own_hearers(tmp_path, monkeypatch):
    trained, measured = [], []

    def sweep(configs, seeds, folder, **_how):
        trained.extend((folder.name, name, config.roles.player) for name, config in configs.items())
        return {(name, seed): f"{folder.name}/{name}" for name in configs for seed in seeds}

    def measure_pair(speaker, hearer, seed):
        measured.append((speaker, hearer))
        return {"figure": 0.25, "before": 0.4, "heard": 0.5, "wins": 0.5}

    monkeypatch.setattr(listening, "sweep", sweep)
    monkeypatch.setattr(listening, "model_of", lambda run: f"scripted:{run}")
    monkeypatch.setattr(listening, "measure_pair", measure_pair)
    result = listening.measure_study("listening", [101, 102], 1, tmp_path)
    for folder, name, players in trained:
        own = {"bayesians": "scripted:bayes", "random": "scripted:random"}[name.rpartition("_")[2]]
        seed = folder.rpartition("-")[2]
        expected = own if folder.startswith("hearers") else f"scripted:hearers-{seed}/{name}"
        assert {player for role, player in players.items() if not role.endswith("/wolf")} == {expected}
    pairs = {(one.rpartition("_")[2], other.rpartition("_")[2]) for one, other in measured if "/" in one}
    assert pairs == {("bayesians", "bayesians"), ("random", "random")}
    assert sum(one == other for one, other in measured) == 2 * 2 + 2, "each with its like, and Bayesians"
    lines = comparison_lines(result["tables"])
    assert sum("0.250 (0.250 to 0.250)" in line for line in lines) == 7


@pytest.mark.thorough
def test_a_runs_model_takes_seats_that_scripts_had_in_its_run(tmp_path):
    """By the run's own name the scripts would sit there again."""
    (tmp_path / "study.toml").write_text(tomli_w.dumps(listening.settings_of("random", {})))
    shorter = ["iterations=1", "snapshot_every=1", f"games.'{listening.GAME}'.matches=2", "cold_start.steps=1"]
    run = train(settings.load(str(tmp_path / "study.toml"), shorter), tmp_path / "run")
    name = listening.model_of(SimpleNamespace(run=run))
    assert name == f"hf:{(tmp_path / 'run/population/main-000001').resolve()}"
    player = resolve(name, make_game(listening.GAME).spec, Engines())
    assert set(player.members) == {((name, 1.0),)}
