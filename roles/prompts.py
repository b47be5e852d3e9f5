"""From role and observation to chat messages, and from messages to plain text. Pure: no tokenizer, no model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from games.spec import FreeText, Game
from roles.demonstrations import shown_turns
from roles.replies import format_reply
from roles.role import ReplyForm, Role

CUE = ">"
Message = dict[str, str]  # {"role": "system" | "user" | "assistant", "content": ...}, as chat templates take it

_SEPARATORS = (" ", "\u200b", *map(chr, range(0xE000, 0xE100)))


def messages(
    role: Role, observation: str, legal: Sequence[str], refusals: Iterable[tuple[str, str]] = (), form: str = ""
) -> list[Message]:
    """Return the chat that requests one reply of a seat: system, demonstrations, user, a pair for each refusal.

    ``refusals`` are (reply, reason) pairs, oldest first; the reason is from ``conduct.retry_message``.
    The system message is the same in every request of a role, so an engine computes it once. Braces in
    an observation stay as they are: only the card is a template. Where free text is asked for, ``form`` says what an
    answer looks like: it stands in the place of the legal actions, or else at the end, and no answer is marked.
    """
    chat = [{"role": "system", "content": role.system.format() if form else system_text(role)}]
    for turn in shown_turns(role, observation, bool(form)):
        chat.append({"role": "user", "content": request_text(role, turn.observation, turn.legal, turn.form)})
        chat.append({"role": "assistant", "content": format_reply(role, turn.action, turn.form)})
    chat.append({"role": "user", "content": request_text(role, observation, legal, form)})
    for reply, reason in refusals:
        chat.append({"role": "assistant", "content": reply})
        chat.append({"role": "user", "content": reason})
    return chat


def position_messages(role: Role, position: Game) -> list[Message]:
    """Return the chat that requests a reply in a position in which it is the role's seat to act."""
    actions, observation = position.actions(), position.observe(role.seat)
    if isinstance(actions, FreeText):
        return messages(role, observation, (), form=actions.form)
    return messages(role, observation, actions.labels)


def system_text(role: Role) -> str:
    """Return the role's constant instructions; for free replies also its tools and how to mark an answer.

    The form is left to the request where that ends with it.
    """
    text = role.system.format()
    if role.reply is ReplyForm.FREE:
        if not role.ask:
            text += f"\nGive your answer in the form {role.answer_open}action{role.answer_close}."
        for tool in role.tools:
            call = f"{role.answer_open}{tool.signature()}{role.answer_close}"
            text += f"\nInstead of an action you may call {call}: {tool.description}"
    return text


def request_text(role: Role, observation: str, legal: Sequence[str], form: str = "") -> str:
    """Return the message that shows a seat its position and requests its reply, or free text of the ``form``."""
    text = role.prompt.format(observation=_in_terms(role, observation), legal=form or legal_list(legal))
    if form:
        return text if "{legal}" in role.prompt else f"{text}\nAnswer with {form}."
    return f"{text}\n{ask_text(role, legal)}" if role.ask else text


def ask_text(role: Role, legal: Sequence[str]) -> str:
    """Return the end of a request: the legal replies, each as it is to be written."""
    return role.ask.format(legal=legal_list(legal), replies=", ".join(format_reply(role, action) for action in legal))


def _in_terms(role: Role, observation: str) -> str:
    """Return the observation with the labels at the beginnings of its lines as the role words them."""
    if not role.terms:
        return observation
    terms = dict(role.terms)
    lines = (line.partition(":") for line in observation.split("\n"))
    return "\n".join(terms.get(label, label) + colon + rest for label, colon, rest in lines)


def legal_list(legal: Sequence[str]) -> str:
    """Return the legal actions as text."""
    return ", ".join(legal)


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
