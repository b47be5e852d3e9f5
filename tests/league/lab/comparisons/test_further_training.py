"""Few-step adaptation by updates: a player trained further against a stranger, from its snapshots, in other runs."""

import hashlib
import json
from types import SimpleNamespace

import pytest
import torch

from arena.lm.language_model import LanguageModel
from arena.remote.usage import Usage, usage_of_both
from games.common.errors import UsageError
from games.registry import make_game
from league.cli import main
from league.config.load import load, seat_roles
from league.lab.comparisons.adaptation import AdaptationMatches, Earned, rows_of
from league.lab.comparisons.further_training import Further, _beside_a_stranger, further_config, learner_of
from league.training.loop.session import train

GAME = "signalling(rounds=1,form=1)"
SPEC = make_game(GAME).spec
SETTINGS = """
threads = 1
iterations = 2
snapshot_every = 1
episodes_kept = 0
board.time = 0.0
roles.reply = "choice"
cold_start = { steps = 10, matches = 32 }
evaluation = { matches = 0, exact = false }
objective = { name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 0.5 }
optimizer = { learning_rate = 4e-3, learning_rate_end = 1e-9, inner_steps = 4, minibatch_prompts = 64 }
matchmaking = { self_play = 0.8, fictitious = 0.2, opponents = 1 }
credit.rules = { "tiny_hanabi/signaller" = "reinforce" }
[games]
"signalling(rounds=1,form=1)" = { matches = 128, entropy = 0.02, entropy_end = 1e-9, every = 2 }
tiny_hanabi = { matches = 8 }
[model]
hidden_size = 32
intermediate_size = 32
layers = 1
heads = 2
kv_heads = 1
vocabulary = 300
[policies]
ann = { league_role = "partner" }
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a run that has hardly learned, with a partner, in two games."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "small.toml").write_text(SETTINGS)
    train(load(str(folder / "small.toml")), folder / "run")
    return folder / "run"


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def adapt(run, capsys, *words, to="scripted:good", game=GAME, matches="300"):
    given = ["adapt", str(run), "--to", to, "--game", game, "--matches", matches, "--json", *words]
    assert main(given) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)["rows"]


def refused(capsys, *words, status=2):
    assert main(["adapt", *words]) == status
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [101, 102])
def test_return_rises_with_a_fixed_stranger_and_the_run_stays_as_it_is(run, capsys, seed):
    """Its learning rate at the end is 1e-9: what is learned here is learned by the rate at a run's start."""
    before = digests(run)
    rows = adapt(run, capsys, "--updates", "12", "0", "--seed", str(seed), "--beside", "scripted:good")
    assert digests(run) == before
    assert [(row["player"], row["updates"], row["rounds"]) for row in rows] == [
        (name, updates, rounds)
        for name, updates in [(str(run), 0), (str(run), 12), ("scripted:good", 0)]
        for rounds in (0, None)
    ]
    start, later, best = rows[1], rows[3], rows[5]
    assert later["earned_low"] > start["earned_high"]
    assert best["earned"] == 1.0
    for turn, match in zip(rows[::2], rows[1::2], strict=True):  # a match has one turn of each seat
        assert turn["earned"] == pytest.approx(match["earned"])


@pytest.mark.thorough
def test_equal_seeds_give_equal_figures_and_no_update_is_the_figure_in_context(run, capsys):
    first, again = (adapt(run, capsys, "--updates", "0", "1", "2", "--seed", "5") for _ in range(2))
    assert first == again
    fewer = adapt(run, capsys, "--updates", "1", "--seed", "5")
    assert fewer == [row for row in first if row["updates"] == 1], "no update depends on how many follow"
    in_context = adapt(run, capsys, "--rounds", "0", "--seed", "5")
    assert in_context == first[:1]
    assert adapt(run, capsys, "--updates", "0", "--seed", "5") == first[:2]


@pytest.mark.thorough
def test_a_snapshot_of_another_run_is_met_and_stays_as_it_is(run, capsys):
    """Against its own first snapshot, which plays at random, there is nothing to learn."""
    before = digests(run)
    rows = adapt(run, capsys, "--updates", "2", "--set", "optimizer.learning_rate=1e-3", to=f"{run}@main-000000")
    assert rows[-1]["earned"] == pytest.approx(1 / 3, abs=0.12)
    assert digests(run) == before


@pytest.mark.thorough
def test_adapters_are_merged_and_learn_on(tmp_path, capsys):
    (tmp_path / "small.toml").write_text(SETTINGS + '[policies.main]\nweights = "lora"\n')
    changes = ["policies.ann.weights=lora", "optimizer.learning_rate=3e-2"]
    train(load(str(tmp_path / "small.toml"), changes), tmp_path / "run")
    learner = learner_of(str(tmp_path / "run"), SPEC)
    config = further_config(learner, "scripted:good", SPEC, (0, 1), Further(), tmp_path)
    base, merged = (
        LanguageModel.load(folder).parameters() for folder in (tmp_path / "run" / "base", config.model.source)
    )
    moved = [name for name, weight in base.items() if not torch.equal(weight, merged[name])]
    assert moved
    assert all("proj" in name for name in moved), "embeddings and norms are the base's"
    assert config.policy("main").adapted
    rows = adapt(tmp_path / "run", capsys, "--updates", "0", "12", "--seed", "103")
    assert rows[3]["earned_low"] > rows[1]["earned_high"]


def test_the_further_run_trains_the_players_seats_alone_and_leaves_out_what_is_no_part_of_an_update(run, tmp_path):
    learner = learner_of(str(run), SPEC)
    config = further_config(learner, "scripted:good", SPEC, (1, 0), Further((0, 4, 6), 7), tmp_path)
    assert config.roles.player == {f"{GAME}/sender": "scripted:good"}
    assert config.roles.policy == {f"{GAME}/receiver": "main"}
    assert (config.iterations, config.snapshot_every, config.seed) == (6, 2, 7)
    assert {rule: weight for rule, weight in config.matchmaking.shares.items() if weight} == {"self_play": 1.0}
    assert list(config.policies) == ["main"]
    assert list(config.games) == [GAME]
    assert (config.games[GAME].matches, config.games[GAME].every, config.games[GAME].entropy) == (128, 1, 0.02)
    assert config.games[GAME].entropy_end is config.optimizer.learning_rate_end is None
    assert config.credit.rules == {}
    assert config.optimizer.learning_rate == 4e-3
    assert config.model_of("main").source == str((run / "population" / "main-000002").absolute())
    changed = further_config(
        learner, "scripted:good", SPEC, (0, 1), Further((3,), 0, ["games.'" + GAME + "'.matches=64"]), tmp_path
    )
    assert changed.games[GAME].matches == 64
    assert changed.roles.player == {f"{GAME}/receiver": "scripted:good"}


def test_a_partner_that_is_named_takes_the_seats_as_a_main_policy(run, tmp_path):
    learner = learner_of(f"{run}@ann-000002", SPEC)
    config = further_config(learner, "random", SPEC, (0, 1), Further(), tmp_path)
    assert config.roles.policy == {f"{GAME}/sender": "ann"}
    assert config.policy("ann").bound


@pytest.mark.parametrize(
    ("player", "game", "sentence"),
    [
        ("scripted:good", GAME, "no snapshot of a run, so that it has no weights.* leave out --updates"),
        ("equilibrium", "kuhn_poker", "no snapshot of a run, so that it has no weights"),
        ("bayes:random,always:bet", "kuhn_poker", "no snapshot of a run, so that it has no weights"),
        ("{run}@mixture", GAME, "made of several snapshots.*@SNAPSHOT"),
        ("{run}", "sums", "has one seat"),
        ("{run}@nobody", GAME, "nobody"),
    ],
)
def test_who_or_what_cannot_be_updated_is_refused_in_a_sentence(run, player, game, sentence):
    with pytest.raises(UsageError, match=sentence):
        learner_of(player.format(run=run), make_game(game).spec)


def test_the_command_refuses_before_it_trains(run, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--to", "scripted:good", "--game", GAME, "--matches", "8"]
    assert "Give --updates with it" in refused(capsys, str(run), *words, "--set", "seed=1")
    assert "no snapshot of a run" in refused(capsys, "random", *words, "--updates")
    assert "smaller --rounds" in refused(capsys, str(run), *words, "--updates", "--rounds", "1")
    assert "no run named" in refused(capsys, "runs/nobody", *words, "--updates").replace("player", "run")
    assert "mixture is drawn again" in refused(
        capsys, str(run), "--to", f"{run}@mixture", "--game", GAME, "--matches", "8", "--updates", "1"
    )


@pytest.mark.thorough
def test_in_words_a_row_a_number_of_updates(run, capsys):
    assert main(["adapt", str(run), "--to", "scripted:good", "--game", GAME, "--matches", "20", "--updates", "0"]) == 0
    said = capsys.readouterr().out
    assert "after updates against it" in said
    assert "the turn after 0" in said
    assert "a whole match" in said


def test_a_whole_match_earns_what_all_its_turns_do():
    """Of two matches on one deal the turns earn 1, 0, 1 and 0, 0: the first turn 1/2, a match 1, and 0."""
    played = [Earned(0, [1.0, 0.0, 1.0], 2.0), Earned(0, [0.0, 0.0], 0.0)]
    player = SimpleNamespace(label="who", spec=make_game("signalling(form=1)").spec)
    turn, third, match = rows_of(player, played, AdaptationMatches((2, 0), whole=True), updates=3)
    assert (turn.rounds, turn.earned.mean, turn.turns, turn.updates) == (0, 0.5, 2, 3)
    assert (third.rounds, third.earned.mean, third.turns) == (2, 1.0, 1)
    assert (match.rounds, match.earned.mean, match.turns, match.updates) == (None, 1.0, 2, 3)


def test_usages_are_added_by_player_and_a_cost_is_known_where_both_are():
    one, other = {"a": Usage(1, cost=0.5)}, {"a": Usage(2, cost=0.25), "b": Usage(3)}
    assert usage_of_both(one, other) == {"a": Usage(3, cost=0.75), "b": Usage(3)}
    assert usage_of_both(other, {"b": Usage(1, cost=1.0)})["b"] == Usage(4)


def test_exact_credit_gives_way_to_returns(tmp_path, capsys):
    """The default preset credits exactly, which needs every seat trained; here one is the stranger's."""
    small = ["model.hidden_size=32", "model.layers=1", "cold_start.steps=2", "evaluation.matches=0", "board.time=0"]
    exact = [
        "iterations=1",
        "snapshot_every=1",
        "credit.rules.kuhn_poker/second=contribution",
        "evaluation.exact=false",
    ]
    config = load("pocket", [*small, *exact], games=["kuhn_poker"])
    assert config.values.estimator == "exact"
    train(config, tmp_path / "run")
    spec = make_game("kuhn_poker").spec
    learner = learner_of(str(tmp_path / "run"), spec)
    further = further_config(learner, "random", spec, (0, 1), Further((0, 1)), tmp_path)
    assert (further.credit.rule, further.credit.rules) == ("rae", {})
    changed = Further((0, 1), changes=["credit.rule=mars"])
    assert further_config(learner, "random", spec, (0, 1), changed, tmp_path).credit.rule == "mars"
    words = ["lab", "adapt", str(tmp_path / "run"), "--to", "random", "--game", "kuhn_poker", "--updates", "0", "1"]
    assert main([*words, "--matches", "8", "--json"]) == 0
    assert {row["updates"] for row in json.loads(capsys.readouterr().out)["rows"]} == {0, 1}


def test_credit_that_does_not_count_the_game_out_stays():
    """Whatever the estimator is that its rule does not ask."""
    roles = seat_roles(load("pocket", games=["kuhn_poker"]).roles, make_game("kuhn_poker").spec)
    config = load("pocket", ["credit.rule=mars"], games=["kuhn_poker"])
    assert config.values.estimator == "exact"
    assert _beside_a_stranger(config, "kuhn_poker", roles) is config
    one = load("pocket", ["credit.rule=mars", "credit.rules.kuhn_poker/second=contribution"], games=["kuhn_poker"])
    assert _beside_a_stranger(one, "kuhn_poker", roles).credit.rule == "rae"
