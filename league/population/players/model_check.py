"""Whether a run's pretrained model can be had and reads prompts as long as its games', before the run has a folder."""

from __future__ import annotations

from arena.lm.tokenization import ChatTokenizer
from games.common.errors import UsageError
from league.config.context import RunContext
from league.population.models.source import model_folder
from league.population.players.model_engine import longest_prompts


def check_model(context: RunContext) -> None:
    """Raise UsageError if a model is not on this machine, cannot be read, or has too short a context for a game."""
    for source in context.config.pretrained(context.policies):
        tokenizer = ChatTokenizer.read(model_folder(source))
        if tokenizer.context is None:
            continue
        for game, tokens in longest_prompts(context.config, context.roles, tokenizer).items():
            if tokens > tokenizer.context:
                raise UsageError(
                    f"In trial matches of {game}, the longest prompt and its reply take {tokens} tokens, but {source} "
                    f"reads {tokenizer.context} at most. Set roles.max_reply_tokens lower where replies are free, give "
                    "a shorter role card (roles.cards), or use a model with a longer context."
                )
