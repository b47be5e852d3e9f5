"""Who beats whom: payoff matrices with intervals in their cells, rankings, and Elo over a run."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from league.lab.reports.pages import signed
from league.lab.reports.run_record import RunRecord
from league.lab.reports.svg import Line, line_chart
from league.lab.standings.standings import GameStandings, Standing
from league.theory.exact.equilibrium_gaps import exact_game
from league.theory.exact.exploitability import uniform_table
from league.theory.statistics import Z_95

SHOWN_PLAYERS = 12  # of a matrix with numbers
SHOWN_RANKS = 12
GOOD, BAD = (11, 99, 197), (194, 87, 26)  # colours of the picture of a whole population


class Cell(NamedTuple):
    """A pair's payoff to the row, with its 95 % interval."""

    text: str  # "" where the pair never met
    interval: str  # "" where it is exact
    style: Markup  # the colour
    title: str


class MatrixTable(NamedTuple):
    """A payoff matrix among some players of a game."""

    players: list[str]
    rows: list[list[Cell]]
    left_out: int  # players
    exact: bool  # whether some cells are
    picture: str  # of the whole population, as a data address; "" where all are in the table


class GamePayoffs(NamedTuple):
    """One game's standings, to be shown."""

    game: str
    matches: int
    cooperative: bool
    matrix: MatrixTable
    ranking: list[Standing]
    elo: Markup
    policies: tuple[str, ...]  # of the lines of ``elo``
    cycles: list[str]
    lead: tuple[float, float] | None  # Elo points of the first above the second, and the half-width of the interval


def game_payoffs(record: RunRecord, game: str) -> GamePayoffs:
    """Return a game's payoffs, ranking and ratings."""
    standings = record.standings[game]
    elo, policies = _elo_chart(record, standings)
    lead = standings.lead
    return GamePayoffs(
        game,
        standings.matches,
        standings.cooperative,
        _matrix(record, standings),
        standings.ranking[:SHOWN_RANKS],
        elo,
        policies,
        [str(cycle) for cycle in standings.cycles[:5]],
        None if lead is None else (lead[0], Z_95 * lead[1]),
    )


def _matrix(record: RunRecord, standings: GameStandings) -> MatrixTable:
    """Return the matrix of the most informative players, in the order of the ranking."""
    matrix = standings.matrix
    payoffs = matrix.returns if standings.cooperative else matrix.margin
    errors = matrix.returns_error if standings.cooperative else matrix.pooled_error()
    shown = _chosen(record, [standing.player for standing in standings.ranking])
    index = [matrix.players.index(player) for player in shown]
    part = payoffs[np.ix_(index, index)]
    exact = _exact(record, standings, shown)
    part = np.where(np.isfinite(exact), exact, part)
    np.fill_diagonal(part, np.nan)
    middle = float(np.nanmean(part)) if standings.cooperative and np.isfinite(part).any() else 0.0
    scale = float(np.nanmax(np.abs(part - middle), initial=1e-9))
    rows = [
        [
            _cell(
                (shown[a], shown[b]),
                part[a, b],
                0.0 if np.isfinite(exact[a, b]) else errors[i, j],
                matrix.matches[i, j],
                abs(part[a, b] - middle) / scale * (1 if part[a, b] >= middle else -1),
            )
            for b, j in enumerate(index)
        ]
        for a, i in enumerate(index)
    ]
    left_out = len(matrix.players) - len(shown)
    is_exact = bool(np.isfinite(exact).any())
    return MatrixTable(
        shown, rows, left_out, is_exact, _picture(payoffs - middle, record, matrix.players) if left_out else ""
    )


def _chosen(record: RunRecord, ranked: list[str]) -> list[str]:
    """Return at most ``SHOWN_PLAYERS`` players: those that are not snapshots, the newest, the best, and some others.

    The others are spread evenly over the run.
    """
    if len(ranked) <= SHOWN_PLAYERS:
        return ranked
    steps = {snapshot.id: snapshot.step for snapshot in record.snapshots}
    newest = {snapshot.policy: snapshot.id for snapshot in record.snapshots}
    by_step = sorted((player for player in ranked if player in steps), key=steps.__getitem__)
    spread = [by_step[round(index)] for index in np.linspace(0, len(by_step) - 1, SHOWN_PLAYERS)] if by_step else []
    outside = [player for player in ranked if player not in steps]
    wanted = [player for player in (*outside, *newest.values(), *ranked[:3], *spread) if player in ranked]
    chosen = list(dict.fromkeys(wanted))[:SHOWN_PLAYERS]
    return [player for player in ranked if player in chosen]


def _exact(record: RunRecord, standings: GameStandings, players: list[str]) -> NDArray[np.float64]:
    """Return the exact payoffs of players who were tabulated, as the matrix has them; nan where they are not known."""
    payoffs = np.full((len(players), len(players)), np.nan)
    game = standings.spec.name
    tabulated = record.tables.get(game)
    if tabulated is None or standings.spec.seats != 2:
        return payoffs
    tables = dict(zip(tabulated.players, tabulated.tables, strict=True)) | {"random": uniform_table(game)}
    known = [index for index, player in enumerate(players) if player in tables]
    if len(known) > 1:
        first, second = exact_game([[tables[players[index]] for index in known]] * 2).values
        own = (first + second.T) / 2.0  # row's return against column, over both seatings
        payoffs[np.ix_(known, known)] = own if standings.cooperative else (own - own.T) / 2.0
        np.fill_diagonal(payoffs, np.nan)
    return payoffs


def _cell(players: tuple[str, str], value: float, error: float, matches: int, strength: float) -> Cell:
    """Return a cell; ``error`` is 0 where the value is exact, ``strength`` from −1 to 1 gives the colour."""
    row, column = players
    if not math.isfinite(value):
        return Cell("", "", Markup(""), f"{row} never met {column}" if row != column else row)
    colour = "good" if strength >= 0 else "bad"
    style = Markup("background: rgba(var(--heat-{}), {:.2f})").format(colour, 0.75 * min(abs(strength), 1.0))
    told = f"{row} against {column}: {signed(value)}"
    if error == 0.0:
        return Cell(signed(value, 2), "", style, f"{told} exactly")
    interval = f"± {Z_95 * error:.2f}" if math.isfinite(error) else "one deal"
    return Cell(signed(value, 2), interval, style, f"{told} {interval}, {matches} matches")


def _picture(payoffs: NDArray[np.float64], record: RunRecord, players: tuple[str, ...]) -> str:
    """Return the payoffs of all players as a PNG, a pixel a pair, in the order of the run; unmet pairs are clear."""
    steps = {snapshot.id: snapshot.step for snapshot in record.snapshots}
    order = sorted(range(len(players)), key=lambda i: (steps.get(players[i], -1), players[i]))
    values = payoffs[np.ix_(order, order)]
    np.fill_diagonal(values, np.nan)
    scale = float(np.nanmax(np.abs(values), initial=1e-9))
    alpha = np.where(np.isfinite(values), 40 + 215 * np.minimum(np.abs(np.nan_to_num(values)) / scale, 1.0), 0)
    pixels = np.where((np.nan_to_num(values) >= 0)[..., None], np.array(GOOD), np.array(BAD))
    image = np.concatenate([pixels, alpha[..., None]], axis=2).astype(np.uint8)
    return f"data:image/png;base64,{base64.b64encode(png(image)).decode()}"


def png(image: NDArray[np.uint8]) -> bytes:
    """Return an image [height, width, 4] (RGBA) as a PNG file."""
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)  # each row begins with its filter: none
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def _elo_chart(record: RunRecord, standings: GameStandings) -> tuple[Markup, tuple[str, ...]]:
    """Return the Elo of each policy's snapshots with 95 % intervals, and the policies in the order of their colours."""
    rated = {
        standing.player: standing
        for standing in standings.ranking
        if standing.component == 0 and math.isfinite(standing.elo_error)
    }
    lines = []
    for policy in dict.fromkeys(snapshot.policy for snapshot in record.snapshots):
        points = [(s.step, rated[s.id]) for s in record.snapshots if s.policy == policy and s.id in rated]
        if points:
            ends = [Z_95 * standing.elo_error for _, standing in points]
            lines.append(Line(policy, [step for step, _ in points], [standing.elo for _, standing in points], ends))
    chart = line_chart(lines, f"Elo in {standings.spec.name}") if lines else Markup("")
    return chart, tuple(line.label for line in lines)
