"""From role and observation to chat messages. Pure: no tokenizer, no model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from games.spec import FreeText, Game
from roles.chat_text import Message
from roles.demonstrations import shown_turns
from roles.replies import format_reply
from roles.role import ReplyForm, Role
from roles.slots import plain_view
from roles.slots.rule import split_prompt


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
    actions, observation = position.actions(), observed(role, position)
    if isinstance(actions, FreeText):
        return messages(role, observation, (), form=actions.form)
    return messages(role, observation, actions.labels)


def observed(role: Role, position: Game) -> str:
    """Return what the role's seat is shown in a position, where nothing was written or given for its slots."""
    return plain_view(role.prompt, role.slots, position, role.seat) if role.slots else position.observe(role.seat)


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
    prompt = split_prompt(role.prompt)[1] if role.slots else role.prompt  # slots are filled in the observation
    text = prompt.format(observation=_in_terms(role, observation), legal=form or legal_list(legal))
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
