"""``distil.roles``: policies that choose under a mask are distilled into a model that answers freely and plays so.

The mixture's table is computed here by hand, and the model's probabilities of whole replies by plain forward passes.
"""

import json
import math

import pytest
import torch
from support.processes.runs import TINY

from arena.lm.language_model import LanguageModel
from games.registry import make_game
from league.cli import main
from league.config import RunConfig
from league.config.load import load, load_run_config, seat_roles
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.storage.run_dir import Run
from league.theory.exact.exploitability import exploitability, information_positions
from league.training.board.metrics_log import read_metrics
from league.training.loop.session import train
from roles.prompts import position_messages

SETTINGS = """
distil_every = 6
evaluation.mixture = "uniform"
optimizer.learning_rate = 2e-2
[distil]
steps = 200
learning_rate = 1e-2
roles = { reply = "free", max_reply_tokens = 8, temperature = 0.7 }
"""
SPEC = make_game("kuhn_poker").spec


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a run of six masked iterations, whose end is distilled into free replies."""
    folder = tmp_path_factory.mktemp("free")
    (folder / "tiny.toml").write_text(TINY + SETTINGS)
    return train(load(str(folder / "tiny.toml")), folder / "run").run_dir


def mixed_by_hand(run):
    """Return the even mixture's behaviour in Kuhn poker by (seat, state): (pass, bet).

    A seat acts twice only as the first, after its own pass: there members count by how likely they pass with that card.
    """
    with Engines() as engines:
        players = [resolve(f"{run}@{snapshot.id}", SPEC, engines) for snapshot in Run(run).population.all()]
        tables = [player.tabulate().table.probabilities for player in players]
    mixed = {}
    for seat, state in tables[0]:
        second = seat == 0 and state.endswith("pb")
        weights = [table[0, state.removesuffix("pb")][0] if second else 1.0 for table in tables]
        bets = [table[seat, state][1] for table in tables]
        bet = sum(weight * each for weight, each in zip(weights, bets, strict=True)) / sum(weights)
        mixed[seat, state] = (1.0 - bet, bet)
    return mixed


def masses(run):
    """Return the probabilities of the replies [pass] and [bet], end token included, by (seat, state)."""
    source = Run(run)
    snapshot = source.distilled.newest("main")
    lm, found = LanguageModel.load(snapshot.path), {}
    roles = seat_roles(source.config.distilled_roles, SPEC)
    for key, position in information_positions("kuhn_poker").items():
        prompt = lm.encode_prompt(position_messages(roles[key[0]], position))
        found[key] = tuple(probability(lm, prompt, lm.encode_reply(text), 0.7) for text in ("[pass]", "[bet]"))
    return found


def probability(lm, prompt, reply, temperature):
    ids = torch.tensor([[*prompt, *reply]])
    with torch.no_grad():
        logprobs = (lm.model(input_ids=ids).logits[0].float() / temperature).log_softmax(-1)
    return math.exp(sum(float(logprobs[len(prompt) - 1 + i, token]) for i, token in enumerate(reply)))


def test_nearly_all_mass_is_on_legal_replies_which_are_played_as_by_the_mixture(run):
    wanted, found = mixed_by_hand(run), masses(run)
    assert found.keys() == wanted.keys()
    assert len(found) == 12
    for key, (passes, bets) in found.items():
        assert passes + bets > 0.98
        assert bets / (passes + bets) == pytest.approx(wanted[key][1], abs=0.05)


def test_it_answers_freely_while_the_run_chooses_under_its_mask(run, capsys):
    assert main(["match", f"{run}@distilled", "random", "--game", "kuhn_poker", "--matches", "100", "--json"]) == 0
    assert 0.0 <= json.loads(capsys.readouterr().out)["illegal_rate"] < 0.02
    with Engines() as engines:
        distilled, newest = resolve(f"{run}@distilled", SPEC, engines), resolve(str(run), SPEC, engines)
        assert {(role.reply, role.temperature, role.max_reply_tokens) for role in distilled.roles} == {("free", 0.7, 8)}
        assert {(role.reply, role.temperature) for role in newest.roles} == {("choice", 1.0)}
        played = distilled.tabulate()
    assert played.replies == 12 * 1024
    wanted = mixture_of(run)
    assert exploitability(played.table) == pytest.approx(exploitability(wanted), abs=0.05)
    (line,) = [line for line in read_metrics(run) if "kuhn_poker/distilled_kl" in line]
    assert line["kuhn_poker/distilled_exploitability"] == pytest.approx(exploitability(wanted), abs=0.05)
    assert 0.0 < line["kuhn_poker/distilled_kl"] < 0.02


def mixture_of(run):
    with Engines() as engines:
        return resolve(f"{run}@mixture", SPEC, engines).tabulate().table


def test_a_folder_of_it_answers_freely_by_itself(run, tmp_path, capsys):
    folder = tmp_path / "one"
    given = [f"{run}@mixture", "-o", str(folder), "--set", "distil.steps=2"]
    assert main(["distil", *given]) == 0
    config = load_run_config(folder)
    assert (config.roles.reply, config.roles.temperature, config.distil.roles) == ("free", 0.7, {})
    assert json.loads((folder / "distilled.json").read_text())["games"]["kuhn_poker"]["situations"] == 12


def test_a_folder_answers_as_the_command_says_and_keeps_no_other_setting_of_it(run, tmp_path):
    cards = {"reply": "free", "max_reply_tokens": 9, "temperature": 0.5}
    given = [f"{run}@mixture", "-o", str(tmp_path / "one"), "--set", "distil.steps=2"]
    assert main(["distil", *given, *(w for k, v in cards.items() for w in ("--set", f"distil.roles.{k}={v}"))]) == 0
    config = load_run_config(tmp_path / "one")
    assert {key: getattr(config.roles, key) for key in cards} == cards
    assert (config.distil.steps, config.distil.roles) == (200, {})


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"distil": {"roles": {"repply": "free"}}}, r"distil\.roles\.repply: .*Its keys are those of \[roles\]"),
        ({"distil": {"roles": {"reply": "free", "on_illegal": "mask"}}}, r"distil\.roles: .*Use 'forfeit' or 'retry'"),
        ({"distil": {"roles": {"player": {"a": "b"}}}}, r"distil\.roles\.player would give roles to others"),
        ({"roles": {"reply": "free"}, "distil": {"roles": {"reply": "choice"}}}, "cannot be taught by free replies"),
        ({"distil": {"roles": {"reply": "free"}, "in_place": True}}, "Leave out one of the two"),
    ],
)
def test_cards_that_cannot_be_taught_are_refused_in_a_sentence(table, sentence):
    with pytest.raises(ValueError, match=sentence):
        RunConfig.model_validate({"games": {"kuhn_poker": {}}, **table})
