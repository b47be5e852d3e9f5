"""Tokens of many requests in one state are drawn as if each request were alone."""

import random

import torch

from arena.lm.decoding.decode import _draw, _Row

END, VOCABULARY = 5, 97
SIZES = (1, 40, 2, 17, 1)  # requests of each state


def states():
    return [
        [_Row(state * 100 + number, random.Random(f"{state} {number}"), [], []) for number in range(size)]
        for state, size in enumerate(SIZES)
    ]


def test_each_request_draws_what_it_would_draw_alone():
    """Inversion: the first token whose cumulated probability exceeds the request's random number."""
    logits = 3 * torch.randn(len(SIZES), VOCABULARY, generator=torch.Generator().manual_seed(0))
    together = states()
    parents, tokens, unfinished = _draw(together, logits, END)
    logprobs = logits.log_softmax(-1)
    for state, rows in enumerate(states()):
        cumulated = logprobs[state].exp().cumsum(-1, dtype=torch.float64)
        for number, row in enumerate(rows):
            token = int((cumulated <= row.rng.random() * cumulated[-1]).sum())
            assert together[state][number].ids == [token]
            assert together[state][number].logprobs == [float(logprobs[state, token])]
    after = {(parent, token): len(rows) for parent, token, rows in zip(parents, tokens, unfinished, strict=True)}
    drawn = [(state, row.ids[0]) for state, rows in enumerate(together) for row in rows if row.ids[0] != END]
    assert after == {key: drawn.count(key) for key in drawn}
    assert END not in tokens


def test_requests_that_share_a_generator_draw_in_their_order():
    shared = random.Random(3)
    rows = [_Row(number, shared, [], []) for number in range(8)]
    logits = torch.zeros(1, VOCABULARY)
    _draw([rows], logits, END)
    reference = random.Random(3)
    assert [row.ids[0] for row in rows] == [int(reference.random() * VOCABULARY) for _ in rows]
