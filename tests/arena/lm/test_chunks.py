"""Chunks: every prompt exactly once, within the bound of tokens, behind a prefix that it begins with."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.lm.chunks import GROUP_COST, plan_chunks


def one_each(prompts):
    return [((),)] * len(prompts)


def test_one_long_prefix_is_shared():
    system = tuple(range(100))
    prompts = [(*system, 200 + i) for i in range(6)]
    (chunk,) = plan_chunks(prompts, one_each(prompts), 1000)
    assert chunk.prefix == system
    assert Counter(chunk.items) == Counter(range(6))


def test_two_roles_get_a_prefix_each_where_that_saves_more_than_a_pass_costs():
    def prompts(length):
        return [(role,) * length + (10 + i,) for role in (0, 1) for i in range(3)]

    worth_it, not_worth_it = prompts(GROUP_COST), prompts(10)
    assert {chunk.prefix for chunk in plan_chunks(worth_it, one_each(worth_it), 10**6)} == {
        (0,) * GROUP_COST,
        (1,) * GROUP_COST,
    }
    assert [chunk.prefix for chunk in plan_chunks(not_worth_it, one_each(not_worth_it), 10**6)] == [()]


def test_equal_prompts_keep_their_last_token():
    prompts = [(1, 2, 3)] * 4
    (chunk,) = plan_chunks(prompts, [((7,),), ((8,),), ((),), ((9, 9),)], 1000)
    assert chunk.prefix == (1, 2)
    assert dict(zip(chunk.items, chunk.suffixes, strict=True)) == {0: (3, 7), 1: (3, 8), 2: (3,), 3: (3, 9, 9)}


def test_no_prompts_give_no_chunks():
    assert plan_chunks([], [], 10) == []


tokens = st.lists(st.integers(0, 2), max_size=4).map(tuple)
openings = st.sampled_from([(), (5,) * 250, (5,) * 250 + (6,) * 300, (7,) * 40])
prompts = st.builds(lambda opening, middle, last: (*opening, *middle, last), openings, tokens, st.integers(0, 2))
prompts_with_continuations = st.lists(
    st.tuples(prompts, st.lists(tokens, min_size=1, max_size=3)), min_size=1, max_size=25
)


@given(prompts_with_continuations, st.sampled_from([1, 20, 600, 8192]))
def test_a_plan_covers_every_prompt_once_within_the_bound(prompts_with_continuations, max_tokens):
    prompts = [prompt for prompt, _ in prompts_with_continuations]
    continuations = [tails for _, tails in prompts_with_continuations]
    chunks = plan_chunks(prompts, continuations, max_tokens)
    assert Counter(item for chunk in chunks for item in chunk.items) == Counter(range(len(prompts)))
    for chunk in chunks:
        expected = [prompts[item] + tail for item in chunk.items for tail in continuations[item]]
        assert [chunk.prefix + suffix for suffix in chunk.suffixes] == expected
        assert all(len(chunk.prefix) < len(prompts[item]) for item in chunk.items), "a prompt's last token stays"
        padded = max(map(len, chunk.suffixes)) * len(chunk.suffixes)
        assert padded <= max_tokens or len(chunk.items) == 1


@given(prompts_with_continuations)
def test_the_order_of_the_prompts_does_not_change_the_chunks(prompts_with_continuations):
    def planned(rows):
        chunks = plan_chunks([prompt for prompt, _ in rows], [tails for _, tails in rows], 600)
        return Counter((chunk.prefix, tuple(sorted(chunk.suffixes))) for chunk in chunks)

    distinct = list({prompt: (prompt, [()]) for prompt, _ in prompts_with_continuations}.values())
    assert planned(distinct) == planned(distinct[::-1])


def test_similar_lengths_run_together():
    prompts = [(i,) * (5 if i % 2 else 100) for i in range(1, 21)]
    chunks = plan_chunks(prompts, one_each(prompts), 1000)
    assert sum(max(map(len, c.suffixes)) * len(c.suffixes) for c in chunks) == pytest.approx(10 * 100 + 10 * 5, rel=0.1)
