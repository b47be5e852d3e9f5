"""Choices by a walk over the tree of all prompts are those of each prompt by itself, and no token runs twice."""

import random
from math import exp

import pytest

from arena.lm import tree_decoding
from arena.lm.tree_decoding import tree_probabilities
from games.registry import make_game
from games.spec import labels
from league.config import RolesConfig
from league.config.load import seat_roles
from league.theory.exact.exploitability import information_positions
from roles.prompts import position_messages
from tests.support.models.pocket import copied, plain_logprobs, plainly, pocket

GAMES = ("kuhn_poker", "liars_dice(dice_sides=3,numdice=1)", "tic_tac_toe")


def asked(lm, game, most=150):
    """Return prompts and tries of some states of a game."""
    roles = seat_roles(RolesConfig(), make_game(game).spec)
    points = list(information_positions(game, 10_000).items())
    points = random.Random(0).sample(points, min(most, len(points)))
    prompts = [lm.encode_prompt(position_messages(roles[seat], position)) for (seat, _), position in points]
    return prompts, [lm.trie(labels(position)) for _, position in points]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    lm = pocket()
    return lm, plainly(copied(lm), tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("most", [1, 3, 2048])
@pytest.mark.parametrize("game", GAMES)
def test_the_tree_gives_what_each_prompt_gives(model, game, most, monkeypatch):
    lm, plain = model
    prompts, tries = asked(lm, game, 12 if most == 1 else 40)
    monkeypatch.setattr(tree_decoding, "MOST_ROWS", most)
    temperature = 1.0
    found = tree_probabilities(lm, prompts, tries, temperature)
    for prompt, trie, row in zip(prompts, tries, found, strict=True):
        for reply, probability in enumerate(row):
            tokens = trie.tokens[reply]
            allowed = [
                sorted({t[n] for t in trie.tokens if t[:n] == tokens[:n] and len(t) > n}) for n in range(len(tokens))
            ]
            expected = exp(sum(plain_logprobs(plain, prompt, tokens, allowed)))
            assert probability == pytest.approx(expected, abs=1e-5)


def test_no_token_runs_twice(model, monkeypatch):
    lm, _ = model
    prompts, tries = asked(lm, "liars_dice(dice_sides=3,numdice=1)")
    sequences = {p + prefix for p, trie in zip(prompts, tries, strict=True) for prefix in trie.prefixes}
    nodes = {sequence[:length] for sequence in sequences for length in range(1, len(sequence) + 1)}
    run = []
    forward = lm.forward
    monkeypatch.setattr(lm, "forward", lambda **inputs: run.append(inputs["input_ids"].numel()) or forward(**inputs))
    tree_probabilities(lm, prompts, tries, 1.0)
    assert sum(run) == len(nodes)


def test_temperature_and_order(model):
    """Prompts may come in any order, twice, one within another, and with nothing to choose."""
    lm, _ = model
    prompt = lm.encode_prompt([{"role": "user", "content": "You play cards."}])
    trie, forced = lm.trie(("bet", "pass")), lm.trie(("bet",))
    longer = (*prompt, *trie.tokens[0][:1], 5)
    prompts, tries = [longer, prompt, prompt, longer, prompt], [trie, trie, forced, trie, trie]
    found = tree_probabilities(lm, prompts, tries, 2.0)
    assert found[2] == [1.0]
    assert found[1] == found[4]
    assert found[0] == found[3]
    one = tree_probabilities(lm, [prompt], [trie], 2.0)[0]
    assert found[1] == pytest.approx(one, abs=1e-6)
    assert found[0] != pytest.approx(found[1], abs=1e-3)
    assert tree_probabilities(lm, [], [], 1.0) == []
    assert max(one) < max(tree_probabilities(lm, [prompt], [trie], 1.0)[0])
