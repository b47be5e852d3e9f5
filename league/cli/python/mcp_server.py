"""A game over the Model Context Protocol: an assistant takes one seat by calling tools, and our player takes the
others. The server uses standard input and output, as assistants expect, and plays one match at a time. The only
importer of mcp.
"""

from __future__ import annotations

import itertools
from typing import Any

from games.common.errors import UsageError
from league.cli.python.seat_matches import SeatMatch, SeatMatches

try:
    from mcp.server.fastmcp import FastMCP
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "mcp":
        raise
    raise UsageError(
        "league serve --mcp needs the package mcp, which is not installed. Install it: pip install 'llm-league[mcp]'"
    ) from None

LONGEST = 100_000  # characters of a reply


class Table:
    """Where one match after the other is played."""

    def __init__(self, matches: SeatMatches) -> None:
        self._matches, self._numbers = matches, itertools.count()
        self._match: SeatMatch | None = None

    def begin(self, number: int | None) -> dict[str, Any]:
        """Start a match, the next one or the one with this number, and return its first turn."""
        if number is not None and number < 0:
            raise ValueError(f"A match's number is 0 or more, not {number}.")
        self._match = self._matches.begin(next(self._numbers) if number is None else number)
        return self._shown(self._match)

    def answer(self, text: str) -> dict[str, Any]:
        """Answer the current turn, and return the next one or the result. Raises ValueError where there is no turn."""
        if self._match is None or self._match.episode is not None:
            raise ValueError("There is no turn to answer: the match is over, or none has started. Call new_match.")
        self._match.answer(text[:LONGEST])
        return self._shown(self._match)

    def _shown(self, match: SeatMatch) -> dict[str, Any]:
        """Return a turn: the seat's prompt, and what it may do; or, when the match is over, its return."""
        if match.episode is not None:
            return {
                "over": True,
                "return": match.seat_return,
                "returns": list(match.episode.returns),
                "illegal_replies": match.illegal_replies,
            }
        prompt = "\n\n".join(message["content"] for message in match.prompt)
        return {"over": False, "role": match.role, "prompt": prompt, "legal": list(match.legal)}


def server(matches: SeatMatches) -> FastMCP:
    """Return the server, with the tools ``new_match`` and ``reply``."""
    table = Table(matches)
    made = FastMCP("league", instructions=f"Plays {matches.spec.alias}. Call new_match, then reply until it is over.")

    def new_match(number: int | None = None) -> dict[str, Any]:
        """Begin a match and return your first turn. Equal numbers are equal deals; without one the next is played."""
        return table.begin(number)

    def reply(text: str) -> dict[str, Any]:
        """Answer your turn as its prompt asks, with the action in brackets; returns the next turn or the result."""
        return table.answer(text)

    for tool in (new_match, reply):
        made.add_tool(tool)
    return made


def serve(matches: SeatMatches) -> None:
    """Serve on standard input and output until the client closes them."""
    server(matches).run()
