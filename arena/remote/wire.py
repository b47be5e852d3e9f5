"""Requests for replies as chat completions, and what comes back. Pure: nothing here sends, or knows the key."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from arena.records import ReplyRequest
from arena.remote.errors import TryAgain
from arena.remote.settings import RemoteSettings
from games.errors import UsageError
from roles.prompts import Message, defuse, legal_list, messages
from roles.replies import parse_reply, spoken
from roles.role import OnIllegal, ReplyForm

AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504, 529})  # what may pass; 529: overloaded, by some servers
NO_QUOTA = "insufficient_quota"  # OpenAI's code for a 429 that does not pass
SHOWN = 300  # letters of a server's message in an error

_BYTES_PER_TOKEN = 4  # of English prose, about
_FIELD = "action"  # of the JSON that is asked for


class Answer(NamedTuple):
    """A chat completion. Token counts are None where the server does not tell them."""

    text: str
    input_tokens: int | None
    output_tokens: int | None


def check_masked(settings: RemoteSettings, request: ReplyRequest) -> None:
    """Raise UsageError if the request's replies may only be legal ones, but the server is asked in plain words."""
    role = request.role
    if role.conduct.on_illegal is OnIllegal.MASK and settings.choice == "plain":
        raise UsageError(
            f"{request.player} answers in plain words, which may be illegal, but the replies of {role.name} in "
            f"{role.game} are masked. Set roles.on_illegal = 'retry' or 'forfeit', or, in the player's TOML file, "
            "choice = 'structured_outputs' (vLLM) or 'json_schema' (OpenAI)."
        )


def to_body(settings: RemoteSettings, request: ReplyRequest, seed: int) -> dict[str, Any]:
    """Return the body of a chat completion that answers the request."""
    role = request.role
    system, user, *rest = messages(role, request.observation, request.legal, request.refusals)
    shaped: dict[str, Any] = {}
    if role.reply is ReplyForm.CHOICE:
        form = f'as the "{_FIELD}" of a JSON object' if settings.choice == "json_schema" else "and nothing else"
        user["content"] += f"\nAnswer with one of these, letter for letter, {form}: {legal_list(request.legal)}"
        shaped = _shaped(settings, request)
    if not settings.system_message:
        user["content"] = f"{system['content']}\n\n{user['content']}"
    chat = [system, user, *rest] if settings.system_message else [user, *rest]
    return complete_body(settings, chat, shaped, temperature=role.temperature, seed=seed)


def complete_body(
    settings: RemoteSettings, chat: list[Message], shaped: dict[str, Any], *, temperature: float, seed: int
) -> dict[str, Any]:
    """Return the body of any chat completion, with the fields that the settings add and without those they leave out.

    What is shown may come from another player, so it can form no mark of a chat template.
    """
    body = {
        "model": settings.model,
        "messages": [{"role": one["role"], "content": defuse(one["content"], settings.special_tokens)} for one in chat],
        "temperature": temperature,
        "max_completion_tokens": settings.max_reply_tokens,
        "seed": seed,
        **shaped,
        **settings.body,
    }
    return {name: value for name, value in body.items() if name not in settings.leave_out}


def tokens_expected(body: dict[str, Any]) -> int:
    """Return about how many tokens a request and its answer take at most, to go by until the server has counted."""
    shown = sum(len(one["content"].encode()) for one in body["messages"])
    return shown // _BYTES_PER_TOKEN + int(body.get("max_completion_tokens", 0))


def read_answer(text: str) -> Answer:
    """Return the chat completion in a response's text. Raises TryAgain for anything else: some servers tell so of
    troubles that pass.
    """
    try:
        data = json.loads(text)
        words = data["choices"][0]["message"].get("content") or ""
        counted = data.get("usage") or {}
        return Answer(str(words), counted.get("prompt_tokens"), counted.get("completion_tokens"))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise TryAgain(f"what it answered is no chat completion ({told(text)[0]})", 200) from None


def reader(settings: RemoteSettings, request: ReplyRequest) -> Callable[[str], str]:
    """Return what makes a reply of a completion's text.

    It raises TryAgain for one that is no legal action where the role counts on the server to allow no other.
    """
    role = request.role

    def read(text: str) -> str:
        if role.reply is ReplyForm.FREE:
            return text
        words = spoken(text).strip()
        reply = _unpacked(words) if settings.choice == "json_schema" else words
        if role.conduct.on_illegal is OnIllegal.MASK and parse_reply(role, reply, request.legal) is None:
            raise TryAgain(
                f"it answered {shown(words)!r}, which is none of {legal_list(request.legal)}, though held to them by "
                f"choice = {settings.choice!r}",
                200,
            )
        return reply

    return read


def told(text: str) -> tuple[str, str]:
    """Return the message and the code of an error response, "" where there is none."""
    try:
        data = json.loads(text)
    except ValueError:
        return shown(text), ""
    error = data.get("error", data) if isinstance(data, dict) else data
    if not isinstance(error, dict):
        return shown(str(error)), ""
    message = error.get("message") or error.get("detail") or text
    return shown(str(message)), str(error.get("code") or "")


def advice(status: int | None, variable: str | None, *, passes: bool) -> str:
    """Return what to do about a failure: its status (None: no answer), the key's variable, and whether it may pass."""
    if passes:
        return {
            None: "See that it runs, and that the URL is right.",
            200: "See that the URL is right (it usually ends in /v1), and that it knows this kind of choice.",
            429: "Lower concurrency, or set requests_per_minute and tokens_per_minute.",
        }.get(status, "It is in trouble: try later.")
    field = "A field that it does not know can be left out (leave_out), and others be added (body)."
    key = f"Check the key in {variable}." if variable else "It wants a key: name its variable as key_variable."
    return {
        400: field,
        401: key,
        403: key,
        404: "Check the name of the model, and the URL, which usually ends in /v1.",
        422: field,
        429: "The account has nothing left to spend.",
    }.get(status or 0, "Check the URL.")


def shown(text: str) -> str:
    """Return a server's words as one short line of printable letters."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(line.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"


def _shaped(settings: RemoteSettings, request: ReplyRequest) -> dict[str, Any]:
    """Return the fields that hold a server to the legal actions."""
    if settings.choice == "structured_outputs":
        return {"structured_outputs": {"choice": list(request.legal)}}
    if settings.choice == "json_schema":
        schema = {
            "type": "object",
            "properties": {_FIELD: {"type": "string", "enum": list(request.legal)}},
            "required": [_FIELD],
            "additionalProperties": False,
        }
        named = {"name": "reply", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {}


def _unpacked(words: str) -> str:
    """Return the action in JSON of the schema; other words as they are."""
    try:
        return str(json.loads(words)[_FIELD])
    except (ValueError, LookupError, TypeError):
        return words
