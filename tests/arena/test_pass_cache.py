"""What a pass computed is kept exactly as long as another would compute the same, bit for bit."""

from collections import Counter

import pytest
import torch
from support.models.pocket import copied, pocket

from arena.match_rng import MatchRng
from arena.records import ReplyRequest
from arena.samplers.pass_cache import PassCache
from arena.samplers.torch_lm import TorchLM
from games.registry import make_game
from roles.cards import load_roles

SYSTEM = tuple(range(50, 290))
PROMPTS = [(*SYSTEM, i, i + 1) for i in range(5, 9)]
ROLE = load_roles(make_game("kuhn_poker").spec)[0]


@pytest.fixture
def lm():
    return pocket()


def passes_of(lm, monkeypatch):
    """Count a model's forward passes."""
    count, real = Counter(), lm.forward
    monkeypatch.setattr(lm, "forward", lambda **inputs: count.update(["passes"]) or real(**inputs))
    return count


@torch.inference_mode()
def nodes(cache, lm, prompts, temperature=1.0):
    tries = [lm.trie(("bet", "pass"))] * len(prompts)
    return [cache.nodes(chunk, tries, temperature) for chunk in lm.plan_choice(prompts, tries, 8192)]


def test_an_equal_chunk_is_not_run_again_and_another_one_has_the_bits_of_a_fresh_pass(lm, monkeypatch):
    count, cache = passes_of(lm, monkeypatch), PassCache(lm)
    first = nodes(cache, lm, PROMPTS)
    assert count["passes"] == 2, "the prefix, and what follows it"
    assert nodes(cache, lm, PROMPTS[::-1]) == first
    assert count["passes"] == 2
    assert nodes(cache, lm, PROMPTS, temperature=2.0) != first
    assert count["passes"] == 3, "the prefix is the same"
    # In a batch of another size products may round differently, so nothing is taken from the larger one.
    assert nodes(cache, lm, PROMPTS[:2]) == nodes(PassCache(lm), lm, PROMPTS[:2])


def test_a_live_models_prefix_may_run_with_what_follows_it(lm, monkeypatch):
    monkeypatch.setattr("arena.lm.language_model.PACKED_WIDTH", 1)
    apart = PassCache(lm)
    expected = nodes(apart, lm, PROMPTS) + nodes(apart, lm, PROMPTS[:2])
    count, cache = passes_of(lm, monkeypatch), PassCache(lm, live=True)
    together = nodes(cache, lm, PROMPTS)
    assert count["passes"] == 1
    together += nodes(cache, lm, PROMPTS[:2])
    assert count["passes"] == 2, "the prefix of the first pass serves the second"
    for ours, other in zip(together, expected, strict=True):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(other), rtol=0, atol=1e-5)


def test_other_legal_replies_are_another_chunk(lm):
    cache, chunks = PassCache(lm), lm.plan_choice(PROMPTS[:1], [lm.trie(("bet", "pass"))], 8192)
    with torch.inference_mode():
        first = cache.nodes(chunks[0], [lm.trie(("bet", "pass"))], 1.0)
        second = cache.nodes(chunks[0], [lm.trie(("12", "6"))], 1.0)
    assert first != second


def ask(player, observation):
    return ReplyRequest(player, ROLE, None, observation, ("bet", "pass"), (), MatchRng(0))


def test_a_frozen_player_keeps_its_passes_and_a_live_one_does_not(lm, monkeypatch, tmp_path):
    frozen = copied(lm)
    frozen.save(tmp_path / "frozen")
    engine = TorchLM(loaded=1)
    engine.add("live", lm)
    engine.register("frozen", tmp_path / "frozen")
    engine.register("other", tmp_path / "frozen")
    requests = [ask(player, f"Your card: {card}") for player in ("live", "frozen") for card in "JQK"]

    def probabilities():
        engine.refresh()
        return engine.distributions(requests)

    before = probabilities()
    live, loaded = passes_of(lm, monkeypatch), passes_of(engine.model_of("frozen"), monkeypatch)
    with torch.no_grad():
        for parameter in lm.model.parameters():
            parameter.mul_(1.1)
    after = probabilities()
    assert live["passes"], "its weights have changed"
    assert not loaded["passes"]
    assert after[3:] == before[3:]
    assert after[:3] != before[:3]
    engine.distributions([ask("other", "Your card: J")])
    assert "frozen" not in engine._passes, "its weights are no longer in memory"
    assert probabilities() == after
