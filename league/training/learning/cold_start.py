"""The base model of a run, and its cold start: imitation of scripted players before the first match."""

from __future__ import annotations

import sys
from operator import itemgetter

from arena.lm.language_model import LanguageModel
from arena.lm.pocket import PocketShape, build_pocket
from games.common.seeds import derive_seed
from games.common.text import plain
from league.config import RunConfig
from league.population.models.source import model_folder
from league.population.players.demonstrations import Demonstration
from learners.update.imitation import Example, cold_start
from roles.chat_text import plain_text
from roles.role import ReplyForm


def base_model(config: RunConfig, demonstrations: list[Demonstration]) -> LanguageModel:
    """Return the configured base model: a checkpoint, or a pocket model whose tokenizer fits the demonstrations."""
    model = config.model
    if model.source != "pocket":
        return LanguageModel.load(model_folder(model.source), device=model.device, dtype=model.dtype)
    shape = PocketShape(
        model.hidden_size, model.layers, model.heads, model.kv_heads, model.intermediate_size, model.vocabulary
    )
    texts = [plain_text(d.chat) + d.reply for d in demonstrations]
    lm = build_pocket(texts, shape, derive_seed(config.seed, "weights"))
    lm.move(model.device)
    return lm


def imitate(config: RunConfig, lm: LanguageModel, demonstrations: list[Demonstration]) -> None:
    """Train the model to reply as the demonstrators do.

    Standard error names a free reply of more tokens than a seat may write, which the model can never finish.
    """
    settings = config.cold_start
    examples = [Example(lm.encode_prompt(d.chat), lm.encode_reply(d.reply)) for d in demonstrations]
    _name_what_is_too_long(demonstrations, examples)
    cold_start(
        lm,
        examples,
        steps=settings.steps,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        seed=derive_seed(config.seed, "imitation"),
    )


def _name_what_is_too_long(demonstrations: list[Demonstration], examples: list[Example]) -> None:
    too_long = [
        (len(example.reply) - 1, demonstration)  # it need not come to its end token
        for demonstration, example in zip(demonstrations, examples, strict=True)
        if demonstration.role.reply is ReplyForm.FREE and len(example.reply) - 1 > demonstration.role.max_reply_tokens
    ]
    if too_long:
        tokens, longest = max(too_long, key=itemgetter(0))
        who = plain(f"{longest.role.name} of {longest.role.game}")
        sys.stderr.write(
            f"league: the cold start imitates a reply of {tokens} tokens, {longest.reply!r}, and {who} may write "
            f"{longest.role.max_reply_tokens}, so the model can never finish it. Set roles.max_reply_tokens to "
            f"{tokens} or more.\n"
        )
