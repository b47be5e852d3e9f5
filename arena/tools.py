"""Tools in play: a reply may call a tool, and its seat gets the output and another request in the same turn.

A quick tool (``Tool.quick``) is called here and now; the call of any other is a request that the match waits for
(``arena.tool_calls``).

A call is written as in Python, ``search("teacher of Ann")`` or ``search(words="teacher of Ann")``, with plain values
only. The output of a wrong call is a sentence that says what is wrong; only a further call after the output that no
call is left is an illegal reply.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from arena.records import ReplyRequest
from arena.time_limit import TimeLimitError, call_within
from arena.tool_calls import CallFailed, ToolRequest, no_answer_within
from games.spec import HasTools, labels
from roles.replies import marked_answers
from roles.role import ReplyForm, Role
from roles.tools import PARAMETER_TYPES, Tool

_UNKNOWN = ""  # the key that counts calls of tools that a role does not have


class ToolCall(NamedTuple):
    """A reply that calls a tool, or tries to."""

    tool: str
    text: str  # as it was written


class ToolSession:
    """The tools of one match, and the numbers of calls by seat."""

    def __init__(self, game: HasTools) -> None:
        self._game = game
        self._functions = game.tools()
        self._this_turn: Counter[str] = Counter()
        self._this_match: Counter[tuple[int, str]] = Counter()  # by seat and tool

    def begin_turn(self, request: ReplyRequest) -> ReplyRequest:
        """Return the request of a new turn; in choice form, its legal replies include tool calls."""
        self._this_turn.clear()
        return self._with_calls(request)

    def find_call(self, request: ReplyRequest, reply: str, action: str | None) -> ToolCall | None:
        """Return the call in a reply; None for any other reply, and for a call too many after a warning.

        ``action`` is the entry of ``request.legal`` that the reply names.
        """
        text = action if action is not None else _answer_text(request.role, reply)
        if text is None or not request.role.tools or (action is not None and action in labels(request.game)):
            return None
        name, parenthesis, _ = text.partition("(")
        if not parenthesis or not name.strip().isidentifier():
            return None
        call = ToolCall(name.strip(), text)
        return None if self._excess(request, call.tool) > 0 else call

    def begin_call(self, request: ReplyRequest, call: ToolCall) -> str | ToolRequest:
        """Return a call's output, or the request for it; a sentence where something is wrong with the call."""
        tool = request.role.tool(call.tool)
        if tool is None or tool.name not in self._functions:
            names = ", ".join(t.name for t in request.role.tools if t.name in self._functions)
            return f"There is no tool named {call.tool[:40]}. Yours: {names or 'none'}."
        if self._excess(request, tool.name) >= 0:
            return f"No call of {tool.name} is left: {_limits(tool)}."
        try:
            arguments = _arguments(tool, call.text)
        except ValueError as error:
            return f"{error} Call it as {tool.signature()}."
        run = partial(_run, tool, partial(self._functions[tool.name], **arguments))
        return _at_once(tool, run) if tool.quick else ToolRequest(tool, run)

    def end_call(self, request: ReplyRequest, call: ToolCall, output: str) -> ReplyRequest:
        """Give the game a call's output, and return the turn's next request."""
        seat, tool = request.role.seat, request.role.tool(call.tool)
        output = output if tool is None else _truncate(output, tool.max_output)
        key = call.tool if tool is not None else _UNKNOWN
        self._this_turn[key] += 1
        self._this_match[seat, key] += 1
        self._game.record_call(call.text, output)
        game = request.game
        return self._with_calls(request._replace(observation=game.observe(seat), legal=labels(game), refusals=()))

    def _with_calls(self, request: ReplyRequest) -> ReplyRequest:
        """Return the request with the calls that are left among its legal replies, for roles in choice form."""
        if request.role.reply is not ReplyForm.CHOICE:
            return request
        left = {name for name in self._functions if self._excess(request, name) < 0}
        calls = [call for call in self._game.legal_calls() if call.partition("(")[0] in left]
        return request._replace(legal=(*request.legal, *calls)) if calls else request

    def _excess(self, request: ReplyRequest, name: str) -> int:
        """Return the seat's calls of a tool minus the tool's limit: 0 means that no call is left."""
        tool = request.role.tool(name)
        if tool is None:  # one warning a turn, whatever the names
            return self._this_turn[_UNKNOWN]
        excess = [
            used - limit
            for used, limit in (
                (self._this_turn[name], tool.per_turn),
                (self._this_match[request.role.seat, name], tool.per_match),
            )
            if limit is not None
        ]
        return max(excess, default=-1)


def _answer_text(role: Role, reply: str) -> str | None:
    """Return a free reply's marked answer, None unless it has exactly one; a choice reply as a whole."""
    if role.reply is ReplyForm.CHOICE:
        return reply.strip()
    answers = set(marked_answers(role, reply))
    return answers.pop() if len(answers) == 1 else None


def _limits(tool: Tool) -> str:
    parts = [(tool.per_turn, "a turn"), (tool.per_match, "a match")]
    return " and ".join(f"{limit} {unit}" for limit, unit in parts if limit is not None) + " at most"


def _arguments(tool: Tool, text: str) -> dict[str, Any]:
    """Return a call's arguments by name. Raises ValueError, in a sentence, if they do not fit the tool."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError
        positional = [ast.literal_eval(argument) for argument in call.args]
        keywords = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise ValueError("This call cannot be read: it takes plain values only.") from None
    names = [name for name, _ in tool.parameters]
    if len(positional) > len(names):
        raise ValueError(f"{tool.name} takes {len(names)} values, not {len(positional)}.")
    arguments: dict[str, Any] = {str(name): value for name, value in keywords.items()}
    for name, value in zip(names, positional, strict=False):
        if name in arguments:
            raise ValueError(f"{name} is given twice.")
        arguments[name] = value
    for name, kind in tool.parameters:
        if name not in arguments:
            raise ValueError(f"{name} is missing.")
        if type(arguments[name]) is not PARAMETER_TYPES[kind]:
            raise ValueError(f"{name} is not of type {kind}.")
    unknown = [name for name in arguments if name not in names]
    if unknown:
        raise ValueError(f"{tool.name} has no parameter {unknown[0][:40]}.")
    return arguments


def _run(tool: Tool, function: Callable[[], str]) -> str:
    """Return the tool's output. Raises CallFailed, with a sentence that says what went wrong."""
    try:
        output: object = function()
    except TimeLimitError as error:
        raise CallFailed(f"{tool.name} gave {error}.") from error
    except (Exception, SystemExit) as error:  # a tool may raise anything
        raise CallFailed(f"{tool.name} failed: {type(error).__name__}: {_truncate(str(error), 200)}") from error
    if not isinstance(output, str):
        raise CallFailed(f"{tool.name} failed: it returned {type(output).__name__}, not text.")
    return output


def _at_once(tool: Tool, run: Callable[[], str]) -> str:
    """Return the output of a quick tool, or the sentence of what went wrong, from this thread."""
    try:
        return call_within(tool.timeout, run)
    except TimeLimitError:
        return f"{tool.name} gave {no_answer_within(tool.timeout)}."
    except CallFailed as error:
        return str(error)


def _truncate(text: str, length: int) -> str:
    return text if len(text) <= length else text[: max(length - 1, 0)] + "…"
