"""Tools in play: a reply that calls one is answered with what the tool says, and its seat is asked again.

A call is written as in Python, ``search("teacher of Ann")`` or ``search(words="teacher of Ann")``, with plain values
only. Whatever is wrong with it is told to the caller in a sentence; only a caller that goes on calling after it
was told that no call is left has replied illegally.
"""

from __future__ import annotations

import ast
import queue
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from arena.records import ReplyRequest
from games.spec import Equipped
from roles.replies import marked_answers
from roles.role import ReplyForm, Role
from roles.tools import PARAMETER_TYPES, Tool

_UNKNOWN = ""  # under which calls of tools that a role does not have are counted


class Call(NamedTuple):
    """A reply that calls a tool, or tries to."""

    tool: str
    text: str  # as it was written


class ToolSession:
    """The tools of one match's seats, and how often each was called."""

    def __init__(self, game: Equipped) -> None:
        self._game = game
        self._functions = game.tools()
        self._this_turn: Counter[str] = Counter()
        self._this_match: Counter[tuple[int, str]] = Counter()  # by seat and tool

    def begin_turn(self, asked: ReplyRequest) -> ReplyRequest:
        """Return the request of a new turn, with the calls that a seat may choose among its legal replies."""
        self._this_turn.clear()
        return self._offered(asked)

    def called(self, asked: ReplyRequest, text: str, action: str | None) -> Call | None:
        """Return the call that a reply makes; None for any other reply, and for one call too many after a warning.

        ``action`` is the one of ``asked.legal`` that the reply names.
        """
        written = action if action is not None else _written(asked.role, text)
        if written is None or not asked.role.tools or (action is not None and action in asked.game.legal_actions()):
            return None
        name, mark, _ = written.partition("(")
        if not mark or not name.strip().isidentifier():
            return None
        call = Call(name.strip(), written)
        return None if self._over(asked, call.tool) > 0 else call

    def answer(self, asked: ReplyRequest, call: Call) -> ReplyRequest:
        """Carry a call out, tell the game what it gave, and return the same turn's next request."""
        seat = asked.role.seat
        output = self._output(asked, call)
        counted = call.tool if asked.role.tool(call.tool) else _UNKNOWN
        self._this_turn[counted] += 1
        self._this_match[seat, counted] += 1
        self._game.told(call.text, output)
        game = asked.game
        return self._offered(asked._replace(observation=game.observe(seat), legal=game.legal_actions(), refusals=()))

    def _offered(self, asked: ReplyRequest) -> ReplyRequest:
        if asked.role.reply is not ReplyForm.CHOICE:
            return asked
        left = {name for name in self._functions if self._over(asked, name) < 0}
        calls = [call for call in self._game.calls() if call.partition("(")[0] in left]
        return asked._replace(legal=(*asked.legal, *calls)) if calls else asked

    def _over(self, asked: ReplyRequest, name: str) -> int:
        """Return how many calls the seat has gone beyond the limits of a tool; 0 means that none is left."""
        tool = asked.role.tool(name)
        if tool is None:  # told once a turn, whatever the names
            return self._this_turn[_UNKNOWN]
        over = [
            used - most
            for used, most in (
                (self._this_turn[name], tool.per_turn),
                (self._this_match[asked.role.seat, name], tool.per_match),
            )
            if most is not None
        ]
        return max(over, default=-1)

    def _output(self, asked: ReplyRequest, call: Call) -> str:
        """Return what a call gives, or the sentence that says why it gives nothing."""
        tool = asked.role.tool(call.tool)
        if tool is None or tool.name not in self._functions:
            names = ", ".join(one.name for one in asked.role.tools if one.name in self._functions)
            return f"There is no tool named {call.tool[:40]}. Yours: {names or 'none'}."
        if self._over(asked, tool.name) >= 0:
            return f"No call of {tool.name} is left: {_limits(tool)}."
        try:
            arguments = _arguments(tool, call.text)
        except ValueError as error:
            return f"{error} Call it as {tool.signature()}."
        return _cut(_carried_out(tool, self._functions[tool.name], arguments), tool.max_output)


def _written(role: Role, text: str) -> str | None:
    """Return the one marked answer of a free reply, the whole of a choice reply."""
    if role.reply is ReplyForm.CHOICE:
        return text.strip()
    answers = set(marked_answers(role, text))
    return answers.pop() if len(answers) == 1 else None


def _limits(tool: Tool) -> str:
    parts = [(tool.per_turn, "a turn"), (tool.per_match, "a match")]
    return " and ".join(f"{most} {when}" for most, when in parts if most is not None) + " at most"


def _arguments(tool: Tool, text: str) -> dict[str, Any]:
    """Return a call's arguments by name. Raises ValueError, in a sentence, if they do not fit the tool."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError
        by_place = [ast.literal_eval(argument) for argument in call.args]
        by_name = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise ValueError("This call cannot be read: it takes plain values only.") from None
    names = [name for name, _ in tool.parameters]
    if len(by_place) > len(names):
        raise ValueError(f"{tool.name} takes {len(names)} values, not {len(by_place)}.")
    given: dict[str, Any] = {str(name): value for name, value in by_name.items()}
    for name, value in zip(names, by_place, strict=False):
        if name in given:
            raise ValueError(f"{name} is given twice.")
        given[name] = value
    for name, kind in tool.parameters:
        if name not in given:
            raise ValueError(f"{name} is missing.")
        if type(given[name]) is not PARAMETER_TYPES[kind]:
            raise ValueError(f"{name} is not of type {kind}.")
    strangers = [name for name in given if name not in names]
    if strangers:
        raise ValueError(f"{tool.name} has no parameter {strangers[0][:40]}.")
    return given


def _carried_out(tool: Tool, function: Callable[..., str], arguments: Mapping[str, Any]) -> str:
    """Return what the tool says within its time, or what went wrong."""
    try:
        if tool.timeout is None:
            return function(**arguments)
        return _WORKERS.call(function, arguments, tool.timeout)
    except TimeoutError:
        return f"{tool.name} gave no answer within {tool.timeout:g} seconds."
    except Exception as error:  # noqa: BLE001  # a tool may raise anything, and its caller is to go on
        return f"{tool.name} failed: {type(error).__name__}: {_cut(str(error), 200)}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: max(length - 1, 0)] + "…"


class _Workers:
    """Carries calls out on a thread beside; one that takes too long is left to itself, and another thread begins."""

    def __init__(self) -> None:
        self._own = threading.local()

    def call(self, function: Callable[..., str], arguments: Mapping[str, Any], timeout: float) -> str:
        """Return what the function returns, or raise what it raises; TimeoutError if that takes too long."""
        calls: queue.SimpleQueue[Any] | None = getattr(self._own, "calls", None)
        if calls is None:
            calls = self._own.calls = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(calls,), daemon=True).start()
        done: queue.SimpleQueue[tuple[str, Exception | None]] = queue.SimpleQueue()
        calls.put((function, arguments, done))
        try:
            result, error = done.get(timeout=timeout)
        except queue.Empty:
            calls.put(None)  # it ends after what it is doing now
            self._own.calls = None
            raise TimeoutError from None
        if error is not None:
            raise error
        return result


_WORKERS = _Workers()


def _serve(calls: queue.SimpleQueue[Any]) -> None:
    """Carry out calls until None comes."""
    while (call := calls.get()) is not None:
        function, arguments, done = call
        try:
            done.put((function(**arguments), None))
        except Exception as error:  # noqa: BLE001  # raised again where the call was made
            done.put(("", error))
