"""Bodies of chat-completion requests, and parsers of their responses. Pure: nothing here sends or knows the key."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from arena.errors import UnusableAnswerError
from arena.records import ReplyRequest
from arena.remote.settings import RemoteSettings
from games.common.errors import UsageError
from roles.chat_text import Message, break_special_tokens
from roles.prompts import legal_list, messages
from roles.replies import parse_reply, strip_thoughts
from roles.role import OnIllegal, ReplyForm
from roles.truncation import NO_TRUNCATION

RETRY_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})  # that may pass; 529: overload
NO_QUOTA = "insufficient_quota"  # OpenAI's error code of a 429 that does not pass
MAX_MESSAGE = 300  # characters of a server's message in an error
MAX_NAMES = 1000  # of models that a server lists
LARGEST_LOGPROB = 1e-3  # servers round; a greater one is none, nor is nan
MAX_COUNT = 10**9  # tokens; a count above is none: no model reads or writes this many

_BYTES_PER_TOKEN = 4  # roughly, of English prose
_FIELD = "action"  # of the JSON schema
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # half a letter, which JSON can escape and UTF-8 does not have


class Completion(NamedTuple):
    """A chat completion. Token counts are None where the server does not send them."""

    text: str
    input_tokens: int | None
    output_tokens: int | None
    logprob: float | None = None  # of the text, in nats, where the request asked for its tokens' log-probs


def check_masked(settings: RemoteSettings, request: ReplyRequest) -> None:
    """Raise UsageError if the request's replies are masked, but the settings do not constrain the server to them."""
    role = request.role
    if role.conduct.on_illegal is OnIllegal.MASK and settings.choice == "plain":
        raise UsageError(
            f"{request.player} answers in plain words, which may be illegal, but the replies of {role.name} in "
            f"{role.game} are masked. Set roles.on_illegal = 'retry' or 'forfeit', or, in the player's TOML file, "
            "choice = 'structured_outputs' (vLLM) or 'json_schema' (OpenAI)."
        )


def to_body(settings: RemoteSettings, request: ReplyRequest, seed: int) -> dict[str, Any]:
    """Return the body of the chat-completion request for a reply."""
    role = request.role
    system, *chat = messages(role, request.observation, request.legal, request.refusals, request.form)
    user = chat[-1 - 2 * len(request.refusals)]  # the last message before refusals; demonstrations come before it
    constraint: dict[str, Any] = {}
    if role.reply is ReplyForm.CHOICE:
        form = f'as the "{_FIELD}" of a JSON object' if settings.choice == "json_schema" else "and nothing else"
        if settings.run is None:  # whose prompts stay as the model was trained with them
            user["content"] += f"\nAnswer with one of these, letter for letter, {form}: {legal_list(request.legal)}"
        constraint = _constraint(settings, request)
    if settings.system_message:
        chat = [system, *chat]
    else:
        chat[0]["content"] = f"{system['content']}\n\n{chat[0]['content']}"
    untruncated = NO_TRUNCATION._asdict()  # top_p is OpenAI's; other servers, such as vLLM's, know all three
    truncation = {name: value for name, value in role.truncation._asdict().items() if value != untruncated[name]}
    return complete_body(settings, chat, constraint | truncation, temperature=role.temperature, seed=seed)


def complete_body(
    settings: RemoteSettings, chat: list[Message], constraint: dict[str, Any], *, temperature: float, seed: int
) -> dict[str, Any]:
    """Return a request's body, with the settings' ``body`` fields and without their ``leave_out`` fields.

    The seed is part of it only if the settings ask for seeds. Messages may contain text of other players, so marks of
    chat templates in them are broken up.
    """
    body = {
        "model": settings.model,
        "messages": [
            {**message, "content": break_special_tokens(message["content"], settings.special_tokens)}
            for message in chat
        ],
        "temperature": temperature,
        "max_completion_tokens": settings.max_reply_tokens,
        **({"seed": seed} if settings.seed else {}),
        **constraint,
        **settings.body,
    }
    return {name: value for name, value in body.items() if name not in settings.leave_out}


def estimate_tokens(body: dict[str, Any]) -> int:
    """Estimate the most tokens of a request and its completion, for the rate limit."""
    prompt_bytes = sum(len(message["content"].encode()) for message in body["messages"])
    return prompt_bytes // _BYTES_PER_TOKEN + int(body.get("max_completion_tokens", 0))


def parse_completion(text: str) -> Completion:
    """Return the chat completion in a response's text, of letters that any file and any server can take.

    Raises UnusableAnswerError for any other text: some servers report failures that pass in this way.
    """
    try:
        data = _parse_json(text)
        content = data["choices"][0]["message"].get("content") or ""
    except (ValueError, LookupError, TypeError, AttributeError):
        content = None
    if not isinstance(content, str):
        raise UnusableAnswerError(f"what it answered is not a chat completion ({parse_error(text)[0]})") from None
    usage = data.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return Completion(
        _LONE_SURROGATE.sub("\ufffd", content),
        _count(counts.get("prompt_tokens")),
        _count(counts.get("completion_tokens")),
        _logprob(data),
    )


def reply_parser(settings: RemoteSettings, request: ReplyRequest) -> Callable[[str], str]:
    """Return the function that turns a completion's text into a reply.

    It raises UnusableAnswerError for a reply that is too long, and for an illegal action if the role's replies are
    masked, so that the server should have been constrained to legal ones.
    """
    role = request.role

    def parse(text: str) -> str:
        if len(text) > settings.max_reply_characters:
            most = settings.max_reply_characters
            raise UnusableAnswerError(f"its reply has {len(text):,} characters; max_reply_characters = {most:,}")
        if role.reply is ReplyForm.FREE:
            return text
        answer = strip_thoughts(text).strip()
        reply = _unpack_json(answer) if settings.choice == "json_schema" else answer
        if role.conduct.on_illegal is OnIllegal.MASK and parse_reply(role, reply, request.legal) is None:
            raise UnusableAnswerError(
                f"it answered {printable(answer)!r}, which is none of {legal_list(request.legal)}, despite "
                f"choice = {settings.choice!r}"
            )
        return reply

    return parse


def parse_models(text: str) -> list[str]:
    """Return the names in a server's list of models; nothing for any other text."""
    try:
        return [printable(str(model["id"])) for model in _parse_json(text)["data"][:MAX_NAMES]]
    except (ValueError, LookupError, TypeError, RecursionError):
        return []


def parse_error(text: str) -> tuple[str, str]:
    """Return the message and the code of an error response; "" for a missing code."""
    try:
        data = _parse_json(text)
    except ValueError:
        return printable(text), ""
    error = data.get("error", data) if isinstance(data, dict) else text
    if not isinstance(error, dict):
        return printable(error if isinstance(error, str) else text), ""
    message, code = error.get("message") or error.get("detail"), error.get("code")
    return printable(message if isinstance(message, str) else text), code if isinstance(code, str) else ""


def suggest_fix(status: int | None, variable: str | None, *, passes: bool) -> str:
    """Return advice on a failure by its HTTP status (None: no response)."""
    if passes:
        return {
            None: "Check that it runs, and that the URL is right.",
            200: "Check that the URL is right (it usually ends in /v1), and that it supports this kind of choice.",
            429: "Lower concurrency, or set requests_per_minute and tokens_per_minute.",
        }.get(status, "The server has a problem: try later.")
    field = "Fields that it does not know can be left out (leave_out), and others added (body)."
    key = (
        f"Check the key in {variable}."
        if variable
        else "It needs a key: name its environment variable as key_variable."
    )
    return {
        400: field,
        401: key,
        403: key,
        404: "Check the name of the model, and the URL, which usually ends in /v1.",
        422: field,
        429: "The account has no credit left.",
    }.get(status or 0, "Check the URL.")


def printable(text: str) -> str:
    """Return a server's text as one short line of printable characters."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[: 10 * MAX_MESSAGE])
    line = " ".join(line.split())
    return line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]}…"


def _parse_json(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError for anything else, or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _logprob(data: Any) -> float | None:
    """Return the sum of the tokens' log-probs of a completion; None where they are not all numbers of at most 0."""
    try:
        values = [token["logprob"] for token in data["choices"][0]["logprobs"]["content"]]
    except (LookupError, TypeError):
        return None
    numbers = [value for value in values if type(value) in (int, float)]
    if not numbers or len(numbers) < len(values) or any(not value <= LARGEST_LOGPROB for value in numbers):
        return None
    try:
        return min(math.fsum(numbers), 0.0)
    except OverflowError:  # such as -1e308 twice
        return None


def _count(value: Any) -> int | None:
    """Return a count of tokens; None for anything else."""
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def _constraint(settings: RemoteSettings, request: ReplyRequest) -> dict[str, Any]:
    """Return the fields that constrain a server to the legal actions."""
    if settings.choice == "structured_outputs":
        return {"structured_outputs": {"choice": list(request.legal)}}
    if settings.choice == "json_schema":
        schema = {
            "type": "object",
            "properties": {_FIELD: {"type": "string", "enum": list(request.legal)}},
            "required": [_FIELD],
            "additionalProperties": False,
        }
        named_schema = {"name": "reply", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": named_schema}}
    return {}


def _unpack_json(answer: str) -> str:
    """Return the action in JSON of the schema; any other answer as it is."""
    try:
        action = _parse_json(answer)[_FIELD]
    except (ValueError, LookupError, TypeError):
        return answer
    return _LONE_SURROGATE.sub("\ufffd", action) if isinstance(action, str) else answer
