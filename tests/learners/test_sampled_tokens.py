"""Sampled tokens are the learned ones: from engine to learner no reply and no prompt is tokenised again."""

from collections import Counter

import pytest
from support.learning.updates import PLAIN, STEPS, batch_of
from support.learning.updates import policy as learner_of
from support.matches.kuhn import CHOICE, FREE, kuhn_pocket, self_play
from support.models.pocket import plain_logprobs

from learners.batching import pack
from learners.update.learner import update

LONG = {**FREE, "max_reply_tokens": 12, "temperature": 1.0}


@pytest.fixture(scope="module")
def lm():
    return kuhn_pocket(sharpness=1.0)


@pytest.fixture(scope="module")
def matches(lm):
    return self_play(lm, 60, LONG)


def traces_of(trajectories):
    return [turn.trace for trajectory in trajectories for turn in trajectory.turns]


def test_the_learners_rows_are_what_the_engine_sampled(matches):
    packed = pack("main", matches, [[1.0] * len(t.turns) for t in matches], {}, merge=False).batch
    rows = Counter((tuple(row.prompt), tuple(row.reply)) for row in packed.free)
    assert rows == Counter((trace.prompt_ids, trace.reply_ids) for trace in traces_of(matches))
    kept = Counter(draw.sampled for row in packed.free for draw in row.draws)
    assert kept == Counter(trace.logprobs for trace in traces_of(matches))


def test_the_log_probs_are_of_these_tokens_after_this_prompt(lm, matches, tmp_path):
    for trace in traces_of(matches)[:40]:
        expected = plain_logprobs(lm.model, trace.prompt_ids, trace.reply_ids)
        assert trace.logprobs == pytest.approx(expected, abs=1e-4)


def test_tokenising_the_replies_again_would_learn_others(lm, matches):
    """A reply's text is written by many sequences of tokens, and the tokenizer knows one of them."""
    turns = [turn for trajectory in matches for turn in trajectory.turns if turn.reply]
    ended = [turn for turn in turns if turn.trace.reply_ids[-1] == lm.end_token] or turns
    other = [turn for turn in turns if lm.encode_reply(turn.reply)[:-1] != without_end(lm, turn.trace.reply_ids)]
    assert len(other) > len(turns) / 3
    assert ended
    moved = []
    for turn in other[:20]:
        again = lm.encode_reply(turn.reply)[:-1]
        ours = without_end(lm, turn.trace.reply_ids)
        told = [sum(plain_logprobs(lm.model, turn.trace.prompt_ids, ids)) for ids in (ours, again)]
        moved.append(abs(told[0] - told[1]))
    assert sum(moved) / len(moved) > 1.0, "nats of a whole reply"


def without_end(lm, ids):
    return tuple(token for token in ids if token != lm.end_token)


def test_a_turns_prompt_is_whole_and_no_reply_stands_in_it(lm, matches):
    """Each turn is a row of its own: its prompt is rendered from what the seat sees, and so has nothing to strip."""
    for trajectory in matches:
        for turn in trajectory.turns:
            prompt = lm.decode(turn.trace.prompt_ids)
            assert turn.observation in prompt
        for early, late in zip(trajectory.turns, trajectory.turns[1:], strict=False):
            assert early.trace.prompt_ids != late.trace.prompt_ids


@pytest.mark.parametrize("form", [CHOICE, LONG], ids=["choice", "free"])
def test_the_gap_between_engine_and_learner_is_rounding_alone(lm, form):
    trajectories = self_play(kuhn_pocket(), 40, form)
    metrics = update(learner_of(kuhn_pocket()), batch_of(trajectories), PLAIN, STEPS._replace(inner_steps=1))
    assert metrics["gap"] < 1e-4
