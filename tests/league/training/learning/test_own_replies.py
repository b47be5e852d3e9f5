"""A pretrained model's cold start: only its own legal replies are imitated, each action equally often."""

from collections import Counter

import pytest
import torch
from support.models.pocket import pocket

from games.common.errors import UsageError
from league.config.load import load, run_roles
from league.population.players.demonstrations import demonstrations
from league.training.learning.own_replies import REPLIES_PER_ACTION, balanced, imitate_own_replies, own_replies
from roles.replies import parse_reply

TEXTS = ("Your card: J\nMoves so far: none", "[pass]\n[bet]\n[pass]\n[bet]", "[bet]", "[pass]")
SETTINGS = [
    "roles.reply=free",
    "roles.wording=full",
    "roles.max_reply_tokens=3",
    "cold_start.matches=30",
    "cold_start.own_replies=8",
    "cold_start.steps=20",
    "cold_start.batch_size=64",
]


@pytest.fixture
def config():
    return load("pocket-returns", ["games={kuhn_poker={matches=8}}", *SETTINGS])


def speaker(bias=6.0):
    """Return a model that often says nothing but [pass] or [bet]."""
    lm = pocket(texts=TEXTS, vocabulary=400)
    weights = torch.zeros(len(lm.tokenizer))
    weights[list({*lm.encode_reply("[pass]"), *lm.encode_reply("[bet]")})] = bias
    lm.model.lm_head.bias = torch.nn.Parameter(weights)
    return lm


def test_only_legal_and_complete_replies_are_kept(config):
    lm = speaker()
    positions = demonstrations(config, run_roles(config))
    found = own_replies(config, lm, positions)
    asked = len({position.chat[-1]["content"] + position.chat[0]["content"] for position in positions})
    assert 0 < len(found) < asked * config.cold_start.own_replies
    prompts = {lm.encode_prompt(position.chat) for position in positions}
    for one in found:
        assert one.prompt in prompts  # the demonstrations are not part of what is learned
        assert one.reply[-1] == lm.end_token
        assert parse_reply(one.role, lm.decode(one.reply), ("pass", "bet")) == one.action


def test_the_same_seed_draws_the_same(config):
    positions = demonstrations(config, run_roles(config))
    assert own_replies(config, speaker(), positions) == own_replies(config, speaker(), positions)


def test_each_action_of_a_position_is_imitated_equally_often(config):
    found = own_replies(config, speaker(), demonstrations(config, run_roles(config)))
    actions = {(one.prompt, one.reply): one.action for one in found}
    counts = Counter((example.prompt, actions[example]) for example in balanced(found, 0))
    assert set(counts.values()) == {REPLIES_PER_ACTION}


def test_afterwards_more_of_its_replies_are_legal(config):
    lm, positions = speaker(), demonstrations(config, run_roles(config))
    before = len(own_replies(config, lm, positions))
    imitate_own_replies(config, {"main": lm}, positions)
    assert len(own_replies(config, lm, positions)) > 1.2 * before


def test_a_model_that_says_nothing_legal_is_told_what_to_set(config):
    with pytest.raises(UsageError, match=r"None of the \d+ replies .* is legal.*cold_start.demonstrations"):
        own_replies(config, speaker(bias=-6.0), demonstrations(config, run_roles(config)))


def test_where_a_game_asks_for_words_legal_is_what_it_reads():
    """A model that says little but "box 2" as the judge, and as a debater: words that open nothing are legal there."""
    config = load("pocket-returns", ["games={debate={matches=8}}", *SETTINGS[2:]])
    told = "Answer with one of these, if you think aloud first, put what you say behind"  # or prompts are too long
    lm = pocket(texts=("box 2", "box 2", "leave box 2", told) * 2, vocabulary=700)
    weights = torch.zeros(len(lm.tokenizer))
    weights[list(lm.encode_reply("box 2"))] = 8.0
    lm.model.lm_head.bias = torch.nn.Parameter(weights)
    found = own_replies(config, lm, demonstrations(config, run_roles(config)))
    assert {one.role.name for one in found} == {"first", "second", "judge"}
    for one in found:
        said = lm.decode(one.reply)
        if one.role.name == "judge":
            assert one.action == "box 2"
            assert "box 2" in said.lower()
        else:
            assert one.action.startswith("open nothing")
