"""A person at the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from arena.records import Reply, ReplyRequest
from roles.replies import worded


class PersonLeft(KeyboardInterrupt):
    """The person ended the session (end of input, or Ctrl-C). An interruption, not a failure."""


class Human:
    """Asks a person for each action: shows what the seat observes, and asks again until it is legal.

    An action is typed as it is written, or as its number in the list. ``read`` takes the question
    and returns a line, as ``input`` does; ``write`` shows one text to the person.
    """

    def __init__(self, write: Callable[[str], object], read: Callable[[str], str] = input) -> None:
        self._write = write
        self._read = read

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Ask for one action after another. Raises PersonLeft at the end of input and on Ctrl-C."""
        return [Reply(worded(request.role, self._ask(request))) for request in requests]

    def _ask(self, request: ReplyRequest) -> str:
        """Return the legal action that the person types."""
        self._write(f"\n{request.observation}")
        if list(request.legal) != [str(number) for number in range(1, len(request.legal) + 1)]:
            self._write("   ".join(f"{number}: {action}" for number, action in enumerate(request.legal, 1)))
        while True:
            try:
                line = self._read(f"{request.role.name}> ").strip()
            except (EOFError, KeyboardInterrupt):
                raise PersonLeft("The person left the match.") from None
            action = _chosen(line, request.legal)
            if action is not None:
                return action
            self._write(f"{line!r} is not one of: {', '.join(request.legal)}.")


def _chosen(line: str, legal: Sequence[str]) -> str | None:
    """Return the action that a line names. An action's own text comes before a number in the list."""
    if line in legal:
        return line
    if any(action.isdecimal() for action in legal):
        return None  # numbers are actions here, so a number can only mean itself
    if line.isdecimal() and 1 <= int(line) <= len(legal):
        return legal[int(line) - 1]
    alike = [action for action in legal if action.casefold() == line.casefold()]
    return alike[0] if len(alike) == 1 else None
