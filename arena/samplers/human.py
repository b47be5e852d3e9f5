"""A person at the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from arena.records import Reply, ReplyRequest
from games.spec import FreeText
from roles.replies import format_reply, free_text_reason, read_free_text


class PersonLeft(KeyboardInterrupt):
    """The person ended the session (end of input, or Ctrl-C). An interruption, not a failure."""


class Human:
    """Asks a person for each action: shows the seat's observation, and asks again until the action is legal.

    The person types an action's text, or its number in the list; or, where free text is asked for, a line of words.
    ``read`` takes a prompt and returns a line, as ``input`` does; ``write`` shows a text.
    """

    def __init__(self, write: Callable[[str], object], read: Callable[[str], str] = input) -> None:
        self._write = write
        self._read = read

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Ask for one action after another. Raises PersonLeft at the end of input and on Ctrl-C."""
        return [Reply(format_reply(request.role, self._ask(request), request.form)) for request in requests]

    def _ask(self, request: ReplyRequest) -> str:
        """Return the legal action, or the words, that the person types."""
        self._write(f"\n{request.observation}")
        asked = request.game.actions()
        if isinstance(asked, FreeText):
            self._write(f"Answer with {request.form}.")
        elif list(request.legal) != [str(number) for number in range(1, len(request.legal) + 1)]:
            self._write("   ".join(f"{number}: {action}" for number, action in enumerate(request.legal, 1)))
        while True:
            try:
                line = self._read(f"{request.role.name}> ").strip()
            except (EOFError, KeyboardInterrupt):
                raise PersonLeft("The person left the match.") from None
            if isinstance(asked, FreeText):
                if read_free_text(asked, line) is not None:
                    return line
                self._write(free_text_reason(asked, line))
                continue
            action = _parse_line(line, request.legal)
            if action is not None:
                return action
            self._write(f"{line!r} is not one of: {', '.join(request.legal)}.")


def _parse_line(line: str, legal: Sequence[str]) -> str | None:
    """Return the action that a line names, None if it names none. An action's text has priority over its number."""
    if line in legal:
        return line
    if any(action.isdecimal() for action in legal):
        return None  # a number means an action of that text only
    if line.isdecimal() and 1 <= int(line) <= len(legal):
        return legal[int(line) - 1]
    matches = [action for action in legal if action.casefold() == line.casefold()]
    return matches[0] if len(matches) == 1 else None
