"""vLLM, torch_lm and plain transformers with PEFT give the same log-probs, for base and adapters in one batch."""

import random
from statistics import fmean

import pytest
import torch
from peft import PeftModel
from support.matches.kuhn import CHOICE, FREE, kuhn_matches, played, roles_for
from support.models.pocket import allowed_tokens, plain_logprobs
from transformers import AutoModelForCausalLM

from arena.lm.logprobs import ScoreOptions
from arena.lm.scoring import plan_passes
from arena.records import ReplyRequest
from games.registry import make_game
from roles.truncation import Truncation

CLOSE = {"abs": 1e-3, "rel": 0}


@pytest.fixture(scope="module")
def plainly(base_folder, adapter_folders):
    """Return a function that gives a player's model as the libraries load it by themselves."""

    def load(player):
        model = AutoModelForCausalLM.from_pretrained(base_folder, attn_implementation="eager").eval()
        return model if player == "base" else PeftModel.from_pretrained(model, adapter_folders[player]).eval()

    return load


def mixed_batch(engine, players, form, number=48):
    """Return the traces of matches in which all players sit, all in flight at once."""
    matches = [
        one._replace(players=(players[one.index % len(players)], players[(one.index * 5 + 1) % len(players)]))
        for one in kuhn_matches(number)
    ]
    episodes = played(engine, matches, number, roles_for(**form))
    return [turn.trace for episode in episodes for turn in episode.turns]


def players_of(adapter_folders):
    return ["base", *adapter_folders]


TRUNCATED = {**FREE, "temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.01}


def test_truncated_replies_have_the_learners_log_probs(engine, adapters):
    """At most 1e-4 nats a reply on average; a token at the edge of the nucleus may be cut off by one side alone."""
    traces = mixed_batch(engine, ["base"], TRUNCATED)
    prompts, replies = [trace.prompt_ids for trace in traces], [trace.reply_ids for trace in traces]
    gaps, whole = [], []
    with torch.no_grad():
        for one in plan_passes(adapters.base, prompts, replies, 8192):
            for options, differences in (
                (ScoreOptions(0.7, truncation=Truncation(40, 0.9, 0.01)), gaps),
                (ScoreOptions(0.7), whole),
            ):
                totals = one.scores(adapters.base, options).logprobs.sum(1).tolist()
                pairs = zip(one.items, totals, strict=True)
                differences += [abs(total - sum(traces[item].logprobs)) for item, total in pairs]
    assert fmean(gaps) < 1e-4
    assert fmean(whole) > 0.05


@pytest.mark.parametrize("form", [CHOICE, FREE], ids=["choice", "free"])
def test_log_probs_are_those_of_transformers_and_peft(engine, adapter_folders, plainly, form, record_property):
    players = players_of(adapter_folders)
    traces = mixed_batch(engine, players, form)
    assert {trace.snapshot for trace in traces} == set(players)
    gaps = []
    for player in players:
        model = plainly(player)
        for trace in [trace for trace in traces if trace.snapshot == player]:
            allowed = None
            if trace.mask is not None:
                tokens = engine.tokenizer.trie(trace.mask).tokens
                allowed = allowed_tokens(tokens, tokens.index(trace.reply_ids))
            expected = plain_logprobs(model, trace.prompt_ids, trace.reply_ids, allowed)
            gaps += [abs(a - b) for a, b in zip(trace.logprobs, expected, strict=True)]
    assert len(gaps) > 100
    record_property("largest gap in nats", max(gaps))
    assert max(gaps) < 1e-3


def test_distributions_are_those_of_torch_lm(engine, torch_engine, adapter_folders):
    game = make_game("kuhn_poker")
    requests = []
    for player in players_of(adapter_folders):
        for seed in range(6):
            game.reset(seed)
            role = roles_for()[0]
            requests.append(
                ReplyRequest(player, role, game, game.observe(0), game.legal_actions(), (), random.Random(0))
            )
    ours, theirs = engine.distributions(requests), torch_engine.distributions(requests)
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, **CLOSE)
    assert max(abs(one[0] - other[0]) for one, other in zip(ours[:6], ours[6:12], strict=True)) > 0.05
    for one, other in zip(engine.beliefs(requests), torch_engine.beliefs(requests), strict=True):  # the same of probes
        assert one == pytest.approx(other, **CLOSE)
