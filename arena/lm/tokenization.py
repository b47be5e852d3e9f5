"""Prompts and replies as tokens: the part of an engine's work that needs no weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerFast

from arena.lm.chat_template import RefusedError, render
from arena.lm.chunks import Tokens
from games.common.errors import UsageError
from games.common.files import read_json
from roles.chat_text import PLAIN_TEMPLATE, Message, break_special_tokens, plain_text
from roles.trie import ReplyTrie, build_trie

MOST_LAYERS = 1000  # of a model: a configuration of more is not believed
MAX_CACHED_PROMPTS = 200_000  # an engine that has cached the tokens of more drops them at ``refresh``


class ChatTokenizer:
    """A tokenizer for chat prompts and replies. ``context``: the most tokens that ``model_name`` reads; None: any."""

    def __init__(self, tokenizer: Any, context: int | None, model_name: str, like: ChatTokenizer | None = None) -> None:
        """``like``, with the same tokenizer, has its facts already, and shares the tries that it has built."""
        self.tokenizer = tokenizer
        self.context, self.model_name = context, model_name
        self.special_tokens: tuple[str, ...] = like.special_tokens if like else _special_tokens(tokenizer)
        self.end_token: int = like.end_token if like else _end_token(tokenizer)
        # Characters; no token stands for more of a text.
        self.longest_token: int = like.longest_token if like else max(map(len, tokenizer.get_vocab()))
        self._tries: dict[tuple[str, ...], ReplyTrie] = like._tries if like else {}
        self._encoder: Any = like._encoder if like else _encoder_of(tokenizer)

    @classmethod
    def read(cls, source: str | Path) -> ChatTokenizer:
        """Read the tokenizer and configuration, but no weights, of a folder in Hugging Face layout or a hub id.

        Raises UsageError where there is none.
        """
        tokenizer = read_tokenizer(source)
        return cls(tokenizer, context_of(read_config(source)), str(source))

    def encode_prompt(self, chat: Sequence[Message]) -> Tokens:
        """Return the chat's token ids up to where the reply begins, by the tokenizer's chat template if it has one.

        Players' text is data: special tokens in it are broken up first, so that they stay text.
        """
        safe = self._safe(chat)
        if self.tokenizer.chat_template:
            ids = self._apply_template(safe)
        else:
            ids = [*self._start, *self._encode(plain_text(safe))]
        return self._checked(ids)

    def encode_prompts(self, chats: Sequence[Sequence[Message]]) -> list[Tokens]:
        """Return ``encode_prompt`` of each chat; without a chat template in one call, which takes a third of the time.

        A text within a list is read as by itself: nothing is padded.
        """
        if self.tokenizer.chat_template or not chats:
            return [self.encode_prompt(chat) for chat in chats]
        texts = [plain_text(self._safe(chat)) for chat in chats]
        if self._encoder is None:
            rows = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        else:  # without places in the text, masks and types, which nobody asks for here
            rows = [row.ids for row in self._encoder.encode_batch_fast(texts, add_special_tokens=False)]
        return [self._checked([*self._start, *ids]) for ids in rows]

    @cached_property
    def _start(self) -> list[int]:
        """The tokens that a prompt without a chat template begins with."""
        return _start_tokens(self.tokenizer)

    def _safe(self, chat: Sequence[Message]) -> list[Message]:
        return [
            {**message, "content": break_special_tokens(message["content"], self.special_tokens)} for message in chat
        ]

    def _checked(self, ids: Sequence[int]) -> Tokens:
        if self.context and len(ids) > self.context:
            raise UsageError(
                f"A prompt is {len(ids)} tokens long, but {self.model_name} reads at most {self.context}. "
                "Use a model with a longer context, or a role card with a shorter prompt: a rule such as window can "
                "fill a slot {earlier} in place of all that came before (league show docs long_matches)."
            )
        return tuple(ids)

    def _apply_template(self, chat: list[Message]) -> list[int]:
        """Apply the chat template; if it refuses a system message, prepend that to the first user message."""
        try:
            text = render(self.tokenizer.get_chat_template(), chat, self.tokenizer.special_tokens_map, self.model_name)
        except RefusedError as error:
            if [message["role"] for message in chat[:2]] != ["system", "user"]:
                raise UsageError(f"The chat template of {self.model_name} refuses this chat ({error}).") from None
            system, user, *rest = chat
            return self._apply_template([{**user, "content": f"{system['content']}\n\n{user['content']}"}, *rest])
        return self._encode(text)

    def trie(self, legal: tuple[str, ...]) -> ReplyTrie:
        """Return the token trie of the legal replies, cached because they recur."""
        if legal not in self._tries:
            self._tries[legal] = self.new_trie(legal)
        return self._tries[legal]

    def new_trie(self, legal: Sequence[str]) -> ReplyTrie:
        """Return the token trie of replies that may never come again. Raises ValueError if two have the same tokens."""
        return build_trie(legal, self._encode, self.end_token)

    def encode_reply(self, text: str) -> Tokens:
        """Return a reply's token ids, end token included."""
        return (*self._encode(text), self.end_token)

    def _encode(self, text: str) -> list[int]:
        if self._encoder is not None:
            return list(self._encoder.encode(text, add_special_tokens=False).ids)
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, reply_ids: Sequence[int]) -> str:
        """Return a reply's text without special tokens."""
        return str(self.tokenizer.decode(list(reply_ids), skip_special_tokens=True))


def read_tokenizer(source: str | Path) -> Any:
    """Return the tokenizer of a folder in Hugging Face layout, or of a hub id. Raises UsageError if there is none.

    Here as wherever a model is read, code beside the weights (``auto_map``) is not run: without ``trust_remote_code``,
    ``transformers`` would ask on standard input.
    """
    with readable(source):
        tokenizer: Any = AutoTokenizer.from_pretrained(str(source), trust_remote_code=False)
    for origin in ("is_local", "local_files_only"):  # would be saved, and make a resumed run's snapshots differ
        tokenizer.init_kwargs.pop(origin, None)
    return tokenizer


def with_chat_template(source: str | Path) -> Any:
    """Return the tokenizer of a folder as other programs need it: a chat template, and the model's longest prompt.

    A template that it has stays; else it gets one that makes the prompts of ``ChatTokenizer.encode_prompt``.
    """
    tokenizer = read_tokenizer(source)
    if not tokenizer.chat_template:
        start = "{{- bos_token -}}" if _start_tokens(tokenizer) else ""
        tokenizer.chat_template = start + PLAIN_TEMPLATE
    tokenizer.model_max_length = context_of(read_config(source)) or tokenizer.model_max_length
    return tokenizer


def read_config(source: str | Path) -> Any:
    """Return the configuration of the model in a folder or of a hub id. Raises UsageError if there is none."""
    with readable(source):
        return AutoConfig.from_pretrained(str(source), trust_remote_code=False)


@contextmanager
def readable(source: str | Path) -> Iterator[None]:
    """Raise UsageError for what the libraries raise of a model's files, which may be anything, as strangers' files are.

    Before they read a folder, its number of layers is checked: they make lists of that length. Memory that runs out
    while a model is made is not the files' fault.
    """
    try:
        config = Path(source) / "config.json"
        if config.is_file() and (layers := _layers(read_json(config))) > MOST_LAYERS:
            raise UsageError(f"{config} claims {layers:,} layers, and no model has more than {MOST_LAYERS:,}.")
        yield
    except UsageError:
        raise
    except Exception as error:  # tokenizers raises just that
        if isinstance(error, RuntimeError) and "out of memory" in str(error):
            raise
        raise unreadable(source, error) from error


def _layers(config: Any) -> int:
    """Return the largest number of layers that a configuration or a part of it claims."""
    if not isinstance(config, dict):
        raise TypeError("config.json holds no JSON object")
    own = [value for key, value in config.items() if "layer" in key and isinstance(value, int)]
    return max([0, *own, *(_layers(part) for part in config.values() if isinstance(part, dict))])


def unreadable(source: str | Path, error: Exception) -> UsageError:
    """Return the error of a folder or hub id that holds no causal language model, or one with code of its own."""
    if "trust_remote_code" in str(error):
        return UsageError(
            f"The model in {str(source)!r} needs code of its own, which is never run: it could do anything. "
            "Give a model of a family that transformers itself provides."
        )
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    if not isinstance(error, (OSError, ValueError)):
        reason = f"{type(error).__name__}: {reason}"
    return UsageError(
        f"No causal language model could be loaded from {str(source)!r}: {reason} "
        "Give a folder in Hugging Face layout (config.json, model.safetensors, tokenizer.json) or a hub id."
    )


def context_of(config: Any) -> int | None:
    """Return the most tokens that a model of this configuration reads; None if it does not state that."""
    context = getattr(config, "max_position_embeddings", None)
    return int(context) if context else None


def _encoder_of(tokenizer: Any) -> Any:
    """Return the encoder within a tokenizer that leaves everything to it; None for any other tokenizer.

    ``transformers`` around it takes several times as long as a short prompt.
    """
    if type(tokenizer) is not PreTrainedTokenizerFast:
        return None
    encoder: Any = tokenizer.backend_tokenizer
    plain = encoder.truncation is None and encoder.padding is None and not encoder.encode_special_tokens
    return encoder if plain else None


def _special_tokens(tokenizer: Any) -> tuple[str, ...]:
    """Return all texts of control tokens; many chat-template tokens are not in ``all_special_tokens``."""
    added = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    return tuple(dict.fromkeys([*tokenizer.all_special_tokens, *added]))


def _start_tokens(tokenizer: Any) -> list[int]:
    """Return the beginning-of-sequence token in a list; nothing for a tokenizer that adds none."""
    return [i for i in tokenizer.encode("") if i == tokenizer.bos_token_id]


def _end_token(tokenizer: Any) -> int:
    if tokenizer.eos_token_id is None:
        raise UsageError(
            f"The tokenizer of {tokenizer.name_or_path!r} has no end-of-sequence token, so a reply could never end. "
            "Set eos_token in its tokenizer_config.json."
        )
    return int(tokenizer.eos_token_id)
