"""Programs that play in a run: the endpoint that they call, or a function in this process, and its engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from arena.lm.tokenization import ChatTokenizer
from arena.programs.board import Limits, TurnBoard
from arena.programs.sampler import FunctionTurns, Program, ProgramSampler
from arena.records import ReplyRequest, Sampler
from games.common.errors import UsageError
from games.common.files import atomic_write
from league.config import RunConfig

if TYPE_CHECKING:
    from arena.programs.server import ProgramServer

ADDRESS_FILE = "programs.json"  # where the run listens, while it does


class RunPrograms:
    """The programs of a run's session. ``tokenizers`` are of its policies in training, by the names they play under.

    Without a ``program`` in this process, the run listens for others. Raises UsageError for an address that is not
    available.
    """

    def __init__(
        self, config: RunConfig, run_dir: Path, tokenizers: Mapping[str, ChatTokenizer], program: Program | None
    ) -> None:
        self._settings, self._tokenizers, self._run_dir = config.programs, tokenizers, run_dir
        absence = inf if self._settings.absence is None else self._settings.absence
        limits = Limits(self._settings.seconds, absence, self._settings.completions, self._settings.several_seats)
        self._board = TurnBoard(limits)
        self._function = FunctionTurns(program) if program is not None else None
        self._server = None if program is not None else self._listen()

    def _listen(self) -> ProgramServer:
        from arena.programs.server import ProgramServer  # the server's libraries take a while to import

        settings = self._settings
        address = (settings.host, settings.port)
        try:
            server = ProgramServer(address, self._board, self._tokenizers, settings.roles, settings.allow_hosts)
        except OSError as error:
            raise UsageError(
                f"programs.host = {address[0]!r}, programs.port = {address[1]}: {error.strerror}. Choose another port, "
                "or 0 for any free one."
            ) from None
        server.start()
        atomic_write(self._run_dir / ADDRESS_FILE, json.dumps({"url": server.url}))
        return server

    @property
    def note(self) -> str:
        """A sentence on where programs connect; "" if none has to."""
        if self._server is None:
            return ""
        roles = " and ".join(self._settings.roles)
        return f"Programs play {roles}: they connect to {self._server.url} (league show docs serving)."

    def sampler(self, engine: Sampler) -> ProgramSampler:
        """Return an engine like ``engine``, with programs in their roles."""
        return ProgramSampler(
            engine, self._function or self._board, self._tokenizers, self._takes, ahead=self._settings.ahead
        )

    def _takes(self, request: ReplyRequest) -> bool:
        return f"{request.role.game}/{request.role.name}" in self._settings.roles

    def metrics(self) -> dict[str, float]:
        """Return how many turns were played, forfeited and refused since the last call."""
        if self._server is None:
            return {}
        return {
            f"programs/{name}": float(self._board.counts.pop(name, 0)) for name in ("played", "forfeited", "refused")
        }

    def close(self) -> None:
        """Refuse programs that still call, and stop listening."""
        self._board.close()
        if self._server is not None:
            self._server.stop()
            (self._run_dir / ADDRESS_FILE).unlink(missing_ok=True)
