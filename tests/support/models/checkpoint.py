"""A checkpoint as those that are downloaded: Hugging Face layout, a chat template, thoughts before the answer."""

import random

from arena.lm.language_model import LanguageModel
from arena.lm.pocket import train_tokenizer
from games.registry import make_game
from learners.update.imitation import Example, cold_start
from roles.cards import load_roles, with_overrides
from roles.prompts import messages
from roles.replies import format_reply
from support.models.pocket import pocket

GAME = "kuhn_poker"
# What brings a preset for models of billions of parameters down to it, and to a machine without a GPU.
SMALL = [
    "model.device=cpu",
    "games={kuhn_poker={matches=48}}",
    "iterations=2",
    "snapshot_every=2",
    "threads=1",
    "roles.max_reply_tokens=32",
    "optimizer.micro_batch_tokens=2048",
    "evaluation.matches=8",
]
# Qwen3's marks: a turn is between <|im_start|> and <|im_end|>, which ends a reply too; a system message may come first;
# thoughts of earlier turns are not shown again.
TEMPLATE = """\
{%- for m in messages -%}
{{ '<|im_start|>' + m['role'] + '\n' }}
{%- if m['role'] == 'assistant' -%}{{ m['content'].split('</think>')[-1].lstrip('\n') }}
{%- else -%}{{ m['content'] }}{%- endif -%}
{{ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}
"""
THOUGHTS = ("I hold {card}.", "A {card}: hm.", "They may have more than {card}.")


def save_checkpoint(folder, steps=150):
    """Write a model of 0.3 million parameters, shown for ``steps`` how to think and then answer, and its games."""
    shown = demonstrations(random.Random(0))
    tokenizer = _tokenizer([message["content"] for chat, _ in shown for message in chat] + [text for _, text in shown])
    lm = pocket(sharpness=1.0, hidden_size=128, intermediate_size=256, vocabulary=500)
    lm.model.resize_token_embeddings(len(tokenizer))
    lm.model.config.eos_token_id = lm.model.generation_config.eos_token_id = tokenizer.eos_token_id
    lm = LanguageModel(lm.model, tokenizer)
    examples = [Example(lm.encode_prompt(chat), lm.encode_reply(reply)) for chat, reply in shown]
    cold_start(lm, examples, steps=steps, batch_size=32, learning_rate=3e-3, seed=0)
    lm.save(folder)


def demonstrations(rng, matches=60):
    """Return chats and replies of random play."""
    game, shown = make_game(GAME), []
    roles = [with_overrides(role, reply="free") for role in load_roles(game.spec, wording="full")]
    for deal in range(matches):
        game.reset(deal)
        while (seat := game.to_act()) is not None:
            observation, legal = game.observe(seat), tuple(game.legal_actions())
            action = rng.choice(legal)
            thought = rng.choice(THOUGHTS).format(card=next(card for card in "JQK" if card in observation))
            reply = f"<think>\n{thought}\n</think>\n\n{format_reply(roles[seat], action)}"
            shown.append((messages(roles[seat], observation, legal), reply))
            game.apply(action)
    return shown


def _tokenizer(texts):
    """Return a tokenizer with Qwen3's marks; those of thoughts are words like any other."""
    tokenizer = train_tokenizer(texts, 500)
    tokenizer.add_tokens(["<|im_start|>", "<|im_end|>"], special_tokens=True)
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.eos_token, tokenizer.chat_template = "<|im_end|>", TEMPLATE
    return tokenizer
