"""What can be known of the other player, whole: predictors against the exact Bayesian, values against exact play."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from arena.samplers.torch_lm import TorchLM
from games.registry import make_game
from league.cli import main
from league.lab.comparisons import opponent_models
from league.lab.comparisons.hidden_states import hidden_states, prompts_everywhere, prompts_in, readable
from league.lab.comparisons.opponent_models import measure_opponents, play_values
from league.lab.opponents.logistic import LinearProbe
from league.lab.opponents.predictors import AnswerProbe
from league.population.evaluation.head_to_head import A, compare
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.theory.beliefs import exact_beliefs
from league.theory.exact.exploitability import best_response_values, mixture
from roles.cards import load_roles

KUHN = "kuhn_poker"
TYPES = ("random", "always:bet", "always:pass")


def player(text, game=KUHN):
    return resolve(text, make_game(game).spec, Engines())


@pytest.fixture(scope="module")
def model(lm):
    """Return an untrained model as a player of Kuhn poker."""
    spec, engine = make_game(KUHN).spec, TorchLM()
    engine.add("untrained", lm)
    return Player("untrained", spec, engine, load_roles(spec), ((("untrained", 1.0),),) * 2)


def test_nothing_that_sees_no_more_beats_the_bayesian_and_a_table_reaches_it(model):
    found = measure_opponents(model, [player(name) for name in TYPES], 900, seed=1)
    for one in (found.type, found.action):
        for predictor in (one.probe, one.table, one.majority):
            assert predictor.overall.low <= one.bayes.overall
        assert one.table.overall.high >= one.bayes.overall
    assert found.type.answers == 3
    assert (
        found.type.probe.overall.low > found.type.majority.overall.high
    )  # 12 states, and 32 numbers that tell of them
    assert found.why_not == ""
    play = found.play
    assert play.by_probe <= play.by_belief + 1e-9 <= play.knowing + 2e-9
    assert play.by_probe > max(play.itself, play.equilibrium)


def test_of_equal_types_nothing_is_known_however_well_the_deals_are(model):
    again = dataclasses.replace(player("random"), label="again")
    found = measure_opponents(model, [player("random"), again], 300, seed=2)
    assert found.type.bayes.overall == pytest.approx(0.5)
    assert found.type.table.overall.low < 0.5 < found.type.table.overall.high
    assert found.play.by_belief == pytest.approx(found.play.knowing)


def test_values_are_those_of_exact_play():
    """Bayes' belief earns the best response to the mixture; a belief that is Bayes' earns the same by the other way."""
    types = [player(name).tabulate().table for name in TYPES]
    mixed = best_response_values(mixture(types, [1.0] * 3))
    believed = exact_beliefs(types, 0, [1 / 3] * 3) | exact_beliefs(types, 1, [1 / 3] * 3)
    play = play_values(types[0], types, believed)
    assert play.by_belief == pytest.approx(sum(mixed) / 2, abs=1e-9)
    assert play.by_probe == play.by_belief
    sure = play_values(types[0], types[:1], None)
    assert sure.by_probe is None
    assert sure.knowing == sure.by_belief == pytest.approx(11 / 24)  # against uniform play: (1/2 + 5/12) / 2
    assert sure.itself == pytest.approx(0.0)


def test_hidden_states_are_those_of_what_the_seat_had_read(model, lm):
    """A position's prompt is the one that was played from, and its state is the model's own last one."""
    result = compare((model, player("random")), 60, seed=3)
    seen = {}
    for match, episode in zip(result.matches, result.episodes, strict=True):
        seen |= prompts_in(episode, match.seating.index(A))
    everywhere = prompts_everywhere(model, readable(model))
    assert len(everywhere) == 12
    assert set(seen.values()) == set(everywhere.values())
    states = hidden_states(model, readable(model), everywhere)
    for key, prompt in everywhere.items():
        with torch.no_grad():
            output = lm.model(torch.tensor([prompt]), output_hidden_states=True)
        assert states[key] == pytest.approx(output.hidden_states[-1][0, -1].double().numpy(), abs=1e-4)


def test_a_probes_belief_is_in_the_order_of_the_types_not_of_their_names(monkeypatch):
    """The probe knows its answers by name, a, b, c; the types are c, a, b. Each state is surely of one."""
    states = {(0, "of a"): np.eye(3)[0], (1, "of c"): np.eye(3)[2], (0, "of b"): np.eye(3)[1]}
    monkeypatch.setattr(opponent_models, "prompts_everywhere", lambda *_: {})
    monkeypatch.setattr(opponent_models, "hidden_states", lambda *_: states)
    probe = AnswerProbe(LinearProbe(np.zeros(3), np.ones(3), 50.0 * np.eye(3), np.zeros(3)), ("a", "b", "c"))
    types = [SimpleNamespace(label=name) for name in "cab"]
    found = opponent_models.probed_beliefs(None, None, probe, types)
    expected = {(0, "of a"): (0, 1, 0), (1, "of c"): (1, 0, 0), (0, "of b"): (0, 0, 1)}
    assert found == {key: pytest.approx(row) for key, row in expected.items()}


def test_another_snapshot_reads_the_same_matches(run_dir):
    """Only what is made of the hidden states differs; what was seen, and what can be known of it, does not."""
    own, other = player(f"{run_dir}@main-000010"), player(f"{run_dir}@main-000000")
    types = [player(name) for name in TYPES[:2]]
    plain, read, again = (measure_opponents(own, types, 60, seed=5, reader=one) for one in (None, other, own))
    assert again == plain
    assert read._replace(type=read.type._replace(probe=None), action=None, play=None) == plain._replace(
        type=plain.type._replace(probe=None), action=None, play=None
    )
    assert read.type.probe is not None


def test_scripts_have_no_hidden_states():
    assert readable(player("random")) is None
    found = measure_opponents(player("random"), [player("random"), player("always:bet")], 60, seed=0)
    assert found.type.probe is None
    assert found.play.by_probe is None


def command(*words):
    return main(["opponents", *map(str, words)])


def test_a_command_tells_it_in_words_and_as_json(run_dir, capsys):
    asked = [run_dir, "--game", KUHN, "--against", *TYPES, "--matches", "60", "--seed", "4"]
    assert command(*asked, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["against"] == list(TYPES)
    assert found["type"]["uniform_guess"] == pytest.approx(1 / 3)
    assert set(found["type"]["bayes"]["by_turn"]) == {"1", "2"}
    assert found["type"]["probe"]["accuracy_low"] < found["type"]["bayes"]["accuracy"]
    assert found["play"]["by_belief"] >= found["play"]["by_probe"] - 1e-9
    assert command(*asked, "--json") == 0
    assert json.loads(capsys.readouterr().out) == found  # the seed fixes it
    assert command(*asked) == 0
    told = capsys.readouterr().out
    for share in (found["type"]["probe"]["accuracy"], found["action"]["bayes"]["accuracy"]):
        assert f"{share:.1%}" in told
    assert "best response to Bayes' belief: +" in told


def test_a_game_that_is_not_counted_out_has_no_bayesian(capsys):
    words = ["random", "--game", "tic_tac_toe", "--against", "random", "mcts:2", "--matches", "6"]
    assert command(*words) == 0
    assert "there is no Bayesian prediction: " in capsys.readouterr().out
    assert command(*words, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["play"] is None
    assert found["type"]["bayes"] is None
    assert "boards" in found["not_counted_out"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["random", "--game", KUHN, "--against", "random"], "name two or more different players"),
        (["random", "--game", KUHN, "--against", "random", "random"], "name two or more different players"),
        (["random", "--game", KUHN, "--against", "random", "nobody"], "no player named 'nobody'"),
        (
            ["random", "--game", KUHN, "--against", "random", "always:bet", "--matches", "4"],
            "least 6 matches are needed",
        ),
        (["random", "--game", "kuhn_poker(players=3)", "--against", "random", "always:bet"], "two seats"),
        (["random", "--game", KUHN], "--against"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(capsys, words, part):
    assert command(*words) == 2
    told = capsys.readouterr().err
    assert part in told
    assert "Traceback" not in told


def test_a_mixture_has_no_hidden_states_of_its_own(run_dir, capsys):
    assert command(f"{run_dir}@mixture", "--game", KUHN, "--against", "random", "always:bet") == 2
    assert "mixture" in capsys.readouterr().err
