"""Chat messages as text, for tokenizers without a chat template, and players' text without special tokens.

Knows no game and no role, so a model can be loaded and run where no game is installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

CUE = ">"
Message = dict[str, str]  # {"role": "system" | "user" | "assistant", "content": ...}, as chat templates take it

_SEPARATORS = (" ", "\u200b", *map(chr, range(0xE000, 0xE100)))


def plain_text(chat: Sequence[Message]) -> str:
    """Return the chat as text for a tokenizer without a chat template, up to where the reply begins.

    Each message starts on a new line; ``CUE`` at the start of a line is where a reply begins. No message
    can forge it: a line that begins with the cue gets a space in front.
    """
    lines = []
    for message in chat:
        content = message["content"]
        if CUE in content:
            content = re.sub(rf"^{re.escape(CUE)}", f" {CUE}", content, flags=re.MULTILINE)
        lines.append(CUE + content if message["role"] == "assistant" else content)
    return "\n".join([*lines, CUE])


# ``plain_text`` as a chat template, for tokenizers without one: other programs make the same prompt by it.
PLAIN_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- set text = ('\\n' ~ message['content']).replace('\\n" + CUE + "', '\\n " + CUE + "')[1:] -%}"
    "{{- ('" + CUE + "' if message['role'] == 'assistant' else '') ~ text ~ '\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '" + CUE + "' -}}{%- endif -%}"
)


def as_chat(pairs: Iterable[tuple[str, str]]) -> list[Message]:
    """Return pairs of who speaks and what they say as chat messages."""
    return [{"role": role, "content": content} for role, content in pairs]


def break_special_tokens(text: str, special_tokens: Iterable[str]) -> str:
    """Return the text with every special token broken up, so that a tokenizer reads it as plain text.

    A separator that is part of no special token is inserted after the token's first character (a token
    of one character is removed), until none is left. Text without special tokens is returned unchanged.
    """
    tokens = sorted(set(special_tokens) - {""}, key=lambda token: (-len(token), token))
    if not any(token in text for token in tokens):
        return text
    separator = next(mark for mark in _SEPARATORS if not any(mark in token for token in tokens))
    pattern = re.compile("|".join(map(re.escape, tokens)))

    def break_token(match: re.Match[str]) -> str:
        token = match.group()
        return token[0] + separator + token[1:] if len(token) > 1 else ""

    while pattern.search(text):  # breaking one token can leave an overlapping one, or join its neighbours
        text = pattern.sub(break_token, text)
    return text
