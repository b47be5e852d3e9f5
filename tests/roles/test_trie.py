"""The token trie: which tokens are free, and that its walks are exactly the legal replies."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.trie import build_trie, token_logprobs

END = 256


def letters(text):
    return list(text.encode())


def walk(trie, node_of, prefix=()):
    """Yield every token sequence that the trie allows, taking forced tokens from the replies themselves."""
    if prefix and prefix[-1] == END:
        yield prefix
        return
    if prefix in node_of:
        following = trie.branches[node_of[prefix]]
    else:
        following = {tokens[len(prefix)] for tokens in trie.tokens if tokens[: len(prefix)] == prefix}
        assert len(following) == 1, "only at a branching node may a reply go on in two ways"
    for token in following:
        yield from walk(trie, node_of, (*prefix, token))


def test_a_worked_trie():
    trie = build_trie(["bet", "pass", "bets", "pat"], letters, END)
    b, p, s, t = b"bpst"
    assert trie.prefixes == ((), (p, ord("a")), (b, ord("e"), t))
    assert trie.branches == ((b, p), (s, t), (END, s))
    assert trie.paths == (((0, 0), (2, 0)), ((0, 1), (1, 0)), ((0, 0), (2, 1)), ((0, 1), (1, 1)))
    assert trie.tokens[2] == (*b"bets", END)


def test_log_probs_stand_at_the_tokens_that_were_free():
    trie = build_trie(["bet", "bets", "pass"], letters, END)
    half, third = math.log(0.5), math.log(1 / 3)
    nodes = [[third, math.log(2 / 3)], [half, half]]
    assert token_logprobs(trie, nodes, 0) == (third, 0.0, 0.0, half)
    assert token_logprobs(trie, nodes, 1) == (third, 0.0, 0.0, half, 0.0)
    assert token_logprobs(trie, nodes, 2) == (math.log(2 / 3), 0.0, 0.0, 0.0, 0.0)


def test_a_single_reply_has_nothing_to_choose():
    trie = build_trie(["roll"], letters, END)
    assert (trie.prefixes, trie.branches, trie.paths) == ((), (), ((),))
    assert token_logprobs(trie, [], 0) == (0.0,) * 5


def test_replies_with_equal_tokens_are_refused():
    with pytest.raises(ValueError, match=r"legal replies \['a', 'a'\] have the same tokens"):
        build_trie(["a", "a"], letters, END)


replies = st.lists(st.text("ab", max_size=5), min_size=1, max_size=12, unique=True)


@given(replies)
def test_the_walks_of_a_trie_are_the_replies(texts):
    trie = build_trie(texts, letters, END)
    node_of = {prefix: node for node, prefix in enumerate(trie.prefixes)}
    assert sorted(walk(trie, node_of)) == sorted((*letters(text), END) for text in texts)
    assert all(len(allowed) >= 2 for allowed in trie.branches)
    assert list(map(len, trie.prefixes)) == sorted(map(len, trie.prefixes)), "parents come first"


@given(replies, st.randoms(use_true_random=False))
def test_reply_probabilities_sum_to_one_for_any_node_probabilities(texts, rng):
    trie = build_trie(texts, letters, END)
    nodes = []
    for allowed in trie.branches:
        weights = [rng.random() + 1e-3 for _ in allowed]
        nodes.append([math.log(weight / sum(weights)) for weight in weights])
    total = sum(math.exp(sum(token_logprobs(trie, nodes, reply))) for reply in range(len(texts)))
    assert total == pytest.approx(1.0, abs=1e-12)
