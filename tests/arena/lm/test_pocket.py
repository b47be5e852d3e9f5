"""The embedded model: built without files, equal for equal seeds, and quick to learn the form of replies."""

import math

import pytest
import torch
from support.matches.kuhn import CHOICE, FREE, kuhn_matches, played, roles_for

from arena.lm.pocket import END, PAD, PocketShape, build_pocket, train_tokenizer
from arena.samplers.scripted import Random
from learners.update.imitation import Example, cold_start
from roles.chat_text import plain_text
from roles.prompts import messages
from roles.replies import format_reply

TEXTS = ["You play cards.\nYour card: J\n>bet", "You play cards.\nYour card: Q\n>pass", "1 2 3\nX O 6\n7 8 9\n>6"]


def test_a_seed_fixes_tokenizer_and_weights():
    first, same, other = (build_pocket(TEXTS, PocketShape(vocabulary=300), seed) for seed in (3, 3, 4))
    assert first.tokenizer.get_vocab() == same.tokenizer.get_vocab() == other.tokenizer.get_vocab()
    assert all(map(torch.equal, first.model.parameters(), same.model.parameters()))
    assert not torch.equal(first.model.lm_head.weight, other.model.lm_head.weight)


def test_the_order_of_the_texts_does_not_matter():
    backwards = train_tokenizer([*TEXTS[::-1], TEXTS[0]], 300)
    assert backwards.get_vocab() == train_tokenizer(TEXTS, 300).get_vocab()


def test_the_processes_generator_is_left_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    build_pocket(TEXTS, PocketShape(vocabulary=300), 0)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("text", [*TEXTS, "", "Žluťoučký kůň 🐎", "\x00\x7f\u200b", "a\n\n\n b\t", ">>>"])
def test_any_text_is_encoded_and_decoded(text):
    tokenizer = train_tokenizer(TEXTS, 300)
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text
    assert tokenizer.unk_token_id is None


def test_a_line_of_the_games_is_one_token():
    tokenizer = train_tokenizer(TEXTS, 2048)
    ids = tokenizer.encode("You play cards.\nYour card: J\n", add_special_tokens=False)
    assert [tokenizer.decode([token]) for token in ids] == ["You play cards.\n", "Your card: J\n"]


def test_special_tokens_are_known_and_skipped():
    lm = build_pocket(TEXTS, PocketShape(vocabulary=300), 0)
    assert set(lm.special_tokens) == {END, PAD}
    assert lm.decode(lm.encode_reply("bet")) == "bet"
    assert lm.encode_reply("bet")[-1] == lm.end_token == lm.tokenizer.eos_token_id


@pytest.mark.parametrize("vocabulary", [300, 2048])
def test_the_default_shape_has_a_third_of_a_million_to_a_million_parameters(vocabulary):
    texts = ["".join(map(chr, range(33, 127))) + str(number**3) for number in range(3000)]
    lm = build_pocket(texts, PocketShape(vocabulary=vocabulary), 0)
    assert len(lm.tokenizer) == vocabulary
    assert 0.3e6 < sum(parameter.numel() for parameter in lm.model.parameters()) < 1e6


@pytest.fixture(scope="module", params=[CHOICE, FREE], ids=["choice", "free"])
def shown(request):
    """Return requests of random play of Kuhn poker: chats with their legal replies and the reply that was drawn."""
    roles = roles_for(**request.param)
    engine = Random()
    episodes = played(engine, kuhn_matches(60, ("random", "random")), 60, roles)
    return [
        (
            messages(role, turn.observation, turn.legal),
            [format_reply(role, action) for action in turn.legal],
            turn.reply,
        )
        for episode in episodes
        for turn in episode.turns
        for role in [roles[turn.seat]]
    ]


def legal_mass(lm, shown):
    """Return the mean unmasked probability of a legal reply, over all different prompts."""
    masses = {}
    for chat, legal, _ in shown:
        prompt = lm.encode_prompt(chat)
        if prompt not in masses:
            replies = [lm.encode_reply(text) for text in legal]
            masses[prompt] = 0.0
            with torch.no_grad():
                for chunk in lm.plan([prompt] * len(replies), [(reply,) for reply in replies], 8192):
                    logprobs = lm.reply_logits(chunk, replies).log_softmax(-1)
                    for row, item in enumerate(chunk.items):
                        total = sum(float(logprobs[row, t, token]) for t, token in enumerate(replies[item]))
                        masses[prompt] += math.exp(total)
    return math.fsum(masses.values()) / len(masses)


def started(shown, steps, seed=0):
    lm = build_pocket([plain_text(chat) + reply for chat, _, reply in shown], PocketShape(), 0)
    examples = [Example(lm.encode_prompt(chat), lm.encode_reply(reply)) for chat, _, reply in shown]
    losses = {}
    last = cold_start(
        lm, examples, steps=steps, batch_size=32, learning_rate=2e-3, seed=seed, on_step=losses.__setitem__
    )
    return lm, losses, last


def test_a_cold_start_teaches_legal_replies(shown):
    blank, _, _ = started(shown, 0)
    lm, losses, last = started(shown, 60)
    assert legal_mass(blank, shown) < 0.01
    assert legal_mass(lm, shown) > 0.95
    assert list(losses) == list(range(60))
    assert losses[59] == last < losses[0]


def test_a_cold_start_repeats_itself_and_leaves_the_processes_generator_alone(shown):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, _, _ = started(shown, 3)
    assert torch.equal(torch.rand(3), expected)
    same, _, _ = started(shown, 3)
    other, _, _ = started(shown, 3, seed=1)
    assert all(map(torch.equal, first.model.parameters(), same.model.parameters()))
    assert not torch.equal(first.model.lm_head.weight, other.model.lm_head.weight)
