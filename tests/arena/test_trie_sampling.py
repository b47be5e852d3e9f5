"""Replies sampled node by node: as often as their probabilities say, with the log-probs that they were sampled at."""

import asyncio
import random
from collections import Counter
from math import exp, log

import numpy as np
import pytest

from arena.samplers.trie_sampling import sample_on_trie, tempered
from roles.trie import build_trie, token_logprobs

END = 99
REPLIES = ("ab", "ac", "b", "bcd", "bce")  # of letters as tokens; "ab" and "ac" part at the second
# By what came before: the probability of each token that may follow.
CHANCES = {
    (): {0: 0.3, 1: 0.7},
    (0,): {1: 0.9, 2: 0.1},
    (1,): {END: 0.2, 2: 0.8},
    (1, 2): {3: 0.25, 4: 0.75},
}
EXPECTED = {"ab": 0.27, "ac": 0.03, "b": 0.14, "bcd": 0.14, "bce": 0.42}


def letters(reply):
    return tuple(ord(letter) - ord("a") for letter in reply)


def trie_of(replies):
    return build_trie(replies, letters, END)


async def node(prefix, allowed):
    """Answer later, and in the order in which it was asked."""
    await asyncio.sleep(0)
    return tuple(log(CHANCES[prefix][token]) for token in allowed)


def sampled(replies, rng):
    return asyncio.run(sample_on_trie(trie_of(replies), node, rng))


def test_replies_come_as_often_as_they_are_probable():
    """Of 4,000 draws each share is within four standard errors."""
    rng = random.Random(0)

    async def draws():
        return [await sample_on_trie(trie_of(REPLIES), node, rng) for _ in range(4000)]

    counts = Counter(REPLIES[reply] for reply, _ in asyncio.run(draws()))
    for reply, share in EXPECTED.items():
        assert counts[reply] / 4000 == pytest.approx(share, abs=4 * (share * (1 - share) / 4000) ** 0.5), reply


def test_log_probs_are_those_of_the_tokens_that_were_drawn_and_forced_ones_have_none():
    trie, seen = trie_of(REPLIES), set()
    nodes = [
        [log(CHANCES[p][token]) for token in allowed] for p, allowed in zip(trie.prefixes, trie.branches, strict=True)
    ]
    for seed in range(60):
        reply, logprobs = sampled(REPLIES, random.Random(seed))
        assert logprobs == token_logprobs(trie, nodes, reply)
        assert exp(sum(logprobs)) == pytest.approx(EXPECTED[REPLIES[reply]])
        seen.add(REPLIES[reply])
    assert seen == set(REPLIES)
    by_hand = {"ab": (log(0.3), log(0.9), 0.0), "b": (log(0.7), log(0.2)), "bce": (log(0.7), log(0.8), log(0.75), 0.0)}
    for seed in range(60):
        reply, logprobs = sampled(REPLIES, random.Random(seed))
        assert logprobs == pytest.approx(by_hand.get(REPLIES[reply], logprobs))


def test_each_branching_node_on_the_way_takes_one_number_and_a_single_reply_takes_none():
    for seed in range(20):
        rng, twin = random.Random(seed), random.Random(seed)
        reply, _ = sampled(REPLIES, rng)
        for _ in {"ab": 2, "ac": 2, "b": 2, "bcd": 3, "bce": 3}[REPLIES[reply]] * "x":
            twin.random()
        assert rng.random() == twin.random()
    rng, twin = random.Random(1), random.Random(1)
    assert sampled(("abc",), rng) == (0, (0.0, 0.0, 0.0, 0.0))
    assert rng.random() == twin.random()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_a_temperature_divides_the_log_probs(temperature):
    """exp(log p / T) / Σ is p^(1/T) / Σ p^(1/T): of 0.1, 0.3, 0.6 at ½ their squares, 0.01, 0.09, 0.36, over 0.46."""
    p = np.array([0.1, 0.3, 0.6])
    expected = p ** (1 / temperature) / (p ** (1 / temperature)).sum()
    assert np.exp(tempered(np.log(p).tolist(), temperature)) == pytest.approx(expected)
    if temperature == 0.5:
        assert expected == pytest.approx([1 / 46, 9 / 46, 36 / 46])


def test_a_temperature_does_not_overflow():
    assert tempered([-1000.0, -2000.0], 0.01) == pytest.approx((0.0, -100_000.0))
