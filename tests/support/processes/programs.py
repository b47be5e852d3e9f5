"""Matches that a thread plays while the test takes the turns of programs, as other processes would."""

import threading
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import openai

from arena.errors import EngineError
from arena.programs.board import Limits, TurnBoard
from arena.programs.sampler import ProgramSampler
from arena.programs.server import ProgramServer
from roles.replies import unmasked
from support.matches.kuhn import engine_with, kuhn_matches, played, roles_for

PATIENT = Limits(seconds=60.0, absence=60.0, completions=8)


@contextmanager
def programs(lm, limits=PATIENT, number=8, seats=(0,), **form):
    """Play matches of Kuhn poker in which programs sit first, or at ``seats``; ``episodes()`` waits for their end."""
    board, roles, found = TurnBoard(limits), tuple(map(unmasked, roles_for(**form))), []
    sampler = ProgramSampler(engine_with(main=lm), board, {"main": lm}, lambda request: request.role.seat in seats)

    def play():
        with suppress(EngineError):  # a test that ends before its matches closes the board
            found.append(played(sampler, kuhn_matches(number, ("main", "main")), number, roles))

    with ProgramServer(("127.0.0.1", 0), board, {"main": lm}) as server:
        thread = threading.Thread(target=play)
        thread.start()

        def episodes():
            thread.join(60)
            return found[0]

        try:
            with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
                yield SimpleNamespace(
                    board=board, client=client, server=server, sampler=sampler, episodes=episodes, thread=thread
                )
        finally:
            board.close()
            thread.join(60)


def take(client, program="", wait=5, **fields):
    """Return the next turn, and a client with its key."""
    body = {"program": program, "wait": wait} | fields
    seat = client.post("/seats/next", body=body, cast_to=dict[str, object])
    return seat, client.with_options(api_key=seat["key"] or "none")


def play(client, **what):
    """Play a completion of the client's turn."""
    return client.post("/seats/play", body=what, cast_to=dict[str, object])


def play_plainly(run):
    """Take every turn until the matches are over: play the first answer to the role's own prompt."""
    while run.thread.is_alive():
        seat, client = take(run.client, wait=0)
        if seat["key"] is not None:
            answer = client.chat.completions.create(model="main", messages=seat["messages"])
            play(client, completion=answer.id)
