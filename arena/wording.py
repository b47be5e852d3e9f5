"""What a language model is told and says, as its tokens: all of an engine's work that needs no weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import AutoConfig, AutoTokenizer

from arena.chunks import Tokens
from games.errors import UsageError
from roles.prompts import Message, defuse, plain_text
from roles.trie import ReplyTrie, build_trie

KEPT_PROMPTS = 200_000  # prompts whose tokens an engine remembers from one ``forget`` to the next


class Wording:
    """A tokenizer as play uses it. ``room`` is the longest prompt that ``reader`` takes, in tokens; None: any."""

    def __init__(self, tokenizer: Any, room: int | None, reader: str) -> None:
        self.tokenizer = tokenizer
        self.room, self.reader = room, reader
        self.special_tokens = _special_tokens(tokenizer)
        self.end_token = _end_token(tokenizer)
        self._tries: dict[tuple[str, ...], ReplyTrie] = {}

    @classmethod
    def read(cls, source: str | Path) -> Wording:
        """Read the tokenizer and configuration of a folder in Hugging Face layout, or a hub id, and no weights.

        Raises UsageError where there is none.
        """
        tokenizer = read_tokenizer(source)
        try:
            config = AutoConfig.from_pretrained(str(source))
        except (OSError, ValueError) as error:
            raise unreadable(source, error) from error
        return cls(tokenizer, context_of(config), str(source))

    def encode_prompt(self, chat: Sequence[Message]) -> Tokens:
        """Return the chat's token ids up to where the reply begins.

        With the tokenizer's chat template where it has one. What players wrote is data: special
        tokens within it are broken up first, so that they stay text.
        """
        safe = [{**message, "content": defuse(message["content"], self.special_tokens)} for message in chat]
        if self.tokenizer.chat_template:
            ids = self._templated(safe)
        else:
            ids = [*_opening(self.tokenizer), *self._encode(plain_text(safe))]
        if self.room and len(ids) > self.room:
            raise UsageError(
                f"A prompt is {len(ids)} tokens long, but {self.reader} reads {self.room} at most. "
                "Use a model with a longer context, or a role card with a shorter prompt."
            )
        return tuple(ids)

    def _templated(self, chat: list[Message]) -> list[int]:
        """Return the tokens of the chat template; one that refuses a system message gets it with the request."""
        try:
            return list(self.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False))
        except TemplateError:
            if [message["role"] for message in chat[:2]] != ["system", "user"]:
                raise
            system, user, *rest = chat
            return self._templated([{**user, "content": f"{system['content']}\n\n{user['content']}"}, *rest])

    def trie(self, legal: tuple[str, ...]) -> ReplyTrie:
        """Return the token trie of the legal replies (kept: games ask for the same ones again)."""
        if legal not in self._tries:
            self._tries[legal] = build_trie(legal, self._encode, self.end_token)
        return self._tries[legal]

    def encode_reply(self, text: str) -> Tokens:
        """Return a reply's token ids, end token included."""
        return (*self._encode(text), self.end_token)

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, reply_ids: Sequence[int]) -> str:
        """Return a reply's text without special tokens."""
        return str(self.tokenizer.decode(list(reply_ids), skip_special_tokens=True))


def read_tokenizer(source: str | Path) -> Any:
    """Return the tokenizer of a folder in Hugging Face layout, or of a hub id. Raises UsageError if there is none."""
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(str(source))
    except (OSError, ValueError) as error:
        raise unreadable(source, error) from error
    for origin in ("is_local", "local_files_only"):  # would be saved, and tell a resumed run's snapshots apart
        tokenizer.init_kwargs.pop(origin, None)
    return tokenizer


def unreadable(source: str | Path, error: Exception) -> UsageError:
    """Return the error of a folder or hub id that holds no causal language model."""
    reason = str(error).strip().splitlines()[0]
    return UsageError(
        f"No causal language model could be loaded from {str(source)!r}: {reason} "
        "Give a folder in Hugging Face layout (config.json, model.safetensors, tokenizer.json) or a hub id."
    )


def context_of(config: Any) -> int | None:
    """Return the most tokens that a model of this configuration reads; None if it does not say."""
    room = getattr(config, "max_position_embeddings", None)
    return int(room) if room else None


def _special_tokens(tokenizer: Any) -> tuple[str, ...]:
    """Return all that the tokenizer would read as a control token; chat marks are often not among its named ones."""
    marked = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    return tuple(dict.fromkeys([*tokenizer.all_special_tokens, *marked]))


def _opening(tokenizer: Any) -> list[int]:
    """Return the token that begins every text, for a tokenizer that puts one there."""
    return [i for i in tokenizer.encode("") if i == tokenizer.bos_token_id]


def _end_token(tokenizer: Any) -> int:
    if tokenizer.eos_token_id is None:
        raise UsageError(
            f"The tokenizer of {tokenizer.name_or_path!r} has no end-of-sequence token, so a reply could never end. "
            "Set eos_token in its tokenizer_config.json."
        )
    return int(tokenizer.eos_token_id)
