"""The fixed pieces of work that the guard measures by: plain Python, PyTorch alone, SQLite alone, a bare interpreter.

A piece of the project is compared with the yardstick of its own kind, so that a machine that is slow at products, or at
starting a process, is slow at both. Nothing here may import the project, and nothing may change: every stored ratio
would be another.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple


class _Record(NamedTuple):
    number: int
    names: tuple[str, ...]
    reward: float
    before: object = None
    after: tuple[int, ...] = ()


class _Place:
    __slots__ = ("cuts", "next", "state")

    def __init__(self, state: int) -> None:
        self.state = state
        self.cuts = [0.25, 0.5, 1.0]
        self.next: list[_Place | None] = [None] * 3


def _mixed(state: int) -> tuple[int, float]:
    """Return a generator's next state and a number in [0, 1): products of whole numbers of two words."""
    state = (state + 0x9E3779B97F4A7C15) & ((1 << 64) - 1)
    mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & ((1 << 64) - 1)
    return state, (mixed >> 11) * 2.0**-53


def plain_python(rounds: int = 600) -> int:
    """Run generators, walk down a tree by random numbers, look names up and keep records, as players of games do."""
    root, kept, rewards = _Place(0), list[_Record](), {"pass": 1, "bet": 2}

    def match(number: int) -> Generator[_Record, str, int]:
        place, state, total = root, number, 0
        for turn in range(2):
            state, drawn = _mixed(state)
            branch = bisect_right(place.cuts, drawn)
            if place.next[branch] is None:
                place.next[branch] = _Place(branch)
            place = place.next[branch] or root
            action = yield _Record(turn, ("pass", "bet"), 0.0)
            total += rewards[action]
        return total

    for number in range(rounds):
        coroutine = match(number)
        record = next(coroutine)
        try:
            while True:
                record = coroutine.send(record.names[record.number & 1])
        except StopIteration as stop:
            kept.append(_Record(stop.value, record.names, float(stop.value), record, (number, stop.value)))
    return len(kept)


class Products:
    """Forward and backward passes of a small network, by PyTorch alone."""

    def __init__(self, rows: int, width: int, layers: int) -> None:
        import torch

        generator = torch.Generator().manual_seed(0)
        self._input = torch.randn(rows, width, generator=generator)
        self._weights = [
            (torch.randn(width, width, generator=generator) / width**0.5).requires_grad_() for _ in range(layers)
        ]

    def forward(self) -> Any:
        """Run the network without gradients."""
        import torch

        with torch.inference_mode():
            return self._run()

    def learn(self) -> None:
        """Run the network and its backward pass."""
        self._run().backward()
        for weight in self._weights:
            weight.grad = None

    def _run(self) -> Any:
        states = self._input
        for weight in self._weights:
            gated = (states @ weight).sigmoid() * states
            states = gated * (gated.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        return states.log_softmax(-1).mean()


class Inserts:
    """Rows of JSON text that SQLite writes and reads, in the mode in which two processes share a file."""

    def __init__(self, file: Path, rows: int, numbers: int) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT)")
        self._rows = [[index * 1000 + number for number in range(numbers)] for index in range(rows)]

    def insert(self) -> int:
        """Write all rows in one transaction, read them back and delete them."""
        self._connection.execute("BEGIN IMMEDIATE")
        for row in self._rows:
            self._connection.execute("INSERT INTO rows (text) VALUES (?)", (json.dumps(row),))
        self._connection.execute("COMMIT")
        read = sum(len(json.loads(text)) for (text,) in self._connection.execute("SELECT text FROM rows"))
        self._connection.execute("DELETE FROM rows")
        return read

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def start_python() -> None:
    """Start an interpreter that imports a part of its own library."""
    modules = "argparse, asyncio, dataclasses, email.message, http.client, importlib.metadata, json, logging, sqlite3"
    subprocess.run([sys.executable, "-c", f"import {modules}, typing, unittest, urllib.request"], check=True)
