"""Print the payoffs of the leading players against one another."""

from __future__ import annotations

import math

from rich.table import Table

from league.cli.formatting import plain_table
from league.lab.standings.exact_standings import ExactStandings
from league.lab.standings.standings import GameStandings

SIZE = 8  # rows and columns


def matrix_table(standings: GameStandings, exact: ExactStandings | None) -> Table:
    """Return a table of the leading players' results against one another, those of matches where none are ``exact``."""
    matrix, size = standings.matrix, min(SIZE, len(standings.ranking))
    values, errors = (
        (matrix.returns, matrix.returns_error) if standings.cooperative else (matrix.margin, matrix.pooled_error())
    )
    names = [line.player for line in standings.ranking[:size]]
    known = {} if exact is None else {player: index for index, player in enumerate(exact.players)}
    title = "mean return" if standings.cooperative else "margin"
    note = "? may be 0; = is exact" if len(known.keys() & set(names)) > 1 else "? may be 0"
    table = plain_table(f"{title} ({note})", *[str(column + 1) for column in range(size)])
    for row, player in enumerate(names):
        cells = []
        for column, other in enumerate(names):
            if exact is not None and player in known and other in known and row != column:
                cells.append(f"={_number(float(exact.margin[known[player], known[other]]))}")
            else:
                cells.append(_estimate(float(values[row, column]), float(errors[row, column])))
        table.add_row(f"{row + 1} {player}", *cells)
    return table


def _estimate(mean: float, error: float) -> str:
    """Return a mean, with a question mark where its 95 % interval contains 0 or is not known."""
    if math.isnan(mean):
        return "–"
    return _number(mean) + "?" * (not abs(mean) > 1.96 * error)


def _number(mean: float) -> str:
    return f"{mean:+.2f}".replace("-", "−")
