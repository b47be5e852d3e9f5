"""One game's standings in words and as JSON data, for every command that has them."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from league.commands.words import number, percent
from league.cycles import Cycle
from league.ratings import Skill
from league.standings import GameStandings, Line
from league.standings_exact import ExactStandings
from league.standings_matrix import RoleResult

SHOWN = 12  # lines of a table; --json has all of them
ACROSS = 8  # columns of the matrix
SURE = 0.95  # how certain an order must be to be called so


def tell_game(standings: GameStandings, console: Console, newest: str | None = None, matrix: bool = False) -> None:
    """Print the conclusions first, then tables of at most twelve lines; ``newest`` is marked, and never cut off."""
    if not standings.lines:
        console.print("No two players have met yet.")
        return
    for sentence in _conclusions(standings):
        console.print(sentence, markup=False)
    console.print(_together_table(standings) if standings.together else _ranking(standings, newest))
    if not standings.together and (roles := _role_ratings(standings, newest)) is not None:
        console.print(roles)
    if newest is not None and (results := standings.by_role(newest)):
        console.print(role_table(results, standings.together))
    if matrix:
        console.print(_matrix_table(standings))
    if not standings.together and standings.next_meetings:
        console.print(_next_table(standings))


def tell_exact(exact: ExactStandings, console: Console) -> None:
    """Print who is in the snapshots' exact equilibrium, and their clearest cycle."""
    weights = sorted(zip(exact.players, exact.average.mixture.tolist(), strict=True), key=lambda one: -one[1])
    mixed = ", ".join(f"{player} {percent(weight)}" for player, weight in weights[:3] if weight > 0.0005)
    more = sum(weight > 0.0005 for _, weight in weights[3:])
    console.print(
        f"exact payoffs of {len(exact.players)} snapshots: Nash averaging gives {mixed}"
        f"{f' and {more} more' if more else ''}. {_cycle(exact.cycles, 'No snapshot is in a cycle.')}",
        markup=False,
    )


def document_game(standings: GameStandings) -> dict[str, Any]:
    """Return the standings as JSON data. What was not measured is null."""
    matrix = standings.matrix
    return {
        "matches": standings.matches,
        "ranking": [_line(rank, line) for rank, line in enumerate(standings.lines, 1)],
        "lead": None if standings.lead is None else {"points": standings.lead[0], "error": standings.lead[1]},
        "meta_strategy": {
            "solver": standings.solver,
            "effective_size": standings.effective_size,
            "weights": {line.player: line.weight for line in standings.lines},
        },
        "cycles": [{"players": list(cycle.players), "margin": cycle.margin} for cycle in standings.cycles],
        "next": [meeting._asdict() for meeting in standings.next_meetings],
        "matrix": {
            "players": list(matrix.players),
            "matches": matrix.matches.tolist(),
            "deals": matrix.deals.tolist(),
            **{
                name: _nullable(getattr(matrix, name))
                for name in ("margin", "margin_error", "score", "score_error", "returns", "returns_error")
            },
        },
        "payoffs": [_role_result(result) for line in standings.lines for result in standings.by_role(line.player)],
    }


def role_table(results: list[RoleResult], together: bool) -> Table:
    """Return what one player made of others by role."""
    player = results[0].player
    table = plain_table(
        f"{player} {'with' if together else 'against'}", "as", "matches", "mean return, 95% interval", "score"
    )
    for result in results[:SHOWN]:
        returns = _with_interval(result.returns, result.returns_error)
        score = "–" if together else number(result.score)
        table.add_row(result.opponent, result.role, f"{result.matches:,}", returns, score)
    return table


def plain_table(*columns: str) -> Table:
    """Return an empty table without lines."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _conclusions(standings: GameStandings) -> list[str]:
    """Return who leads and how sure that is, the cycles, and the meta-strategy, a sentence or two each."""
    players = f"{standings.matches:,} matches, {len(standings.lines):,} players."
    if standings.together:
        best = max(standings.lines, key=_earned(standings))
        return [f"{players} All earn the same. Best with others: {best.player}."]
    sentences = [f"{players} {_leader(standings)}", _cycle(standings.cycles, "No cycle is certain.")]
    first = standings.lines[0]
    weights = sorted(standings.lines, key=lambda line: -line.weight)[:3]
    mixed = ", ".join(f"{line.player} {percent(line.weight)}" for line in weights if line.weight > 0.0005)
    size = f"{standings.effective_size:.1f}"
    sentences.append(
        f"No player is best alone: the meta-strategy is as mixed as {size} players alike in weight ({mixed})."
        if standings.effective_size > 1.01
        else f"The meta-strategy is {max(standings.lines, key=lambda line: line.weight).player} alone."
    )
    if any(line.apart for line in standings.lines):
        sentences.append(
            f"Players marked * never met anybody who met {first.player}'s circle: their Elo has a scale of its own."
        )
    return sentences


def _leader(standings: GameStandings) -> str:
    """Return who leads, by how much, and whether it is certain."""
    first = standings.lines[0]
    if standings.lead is None:
        return f"{first.player} leads."
    points, error = standings.lead
    sure = NormalDist().cdf(points / error) if error > 0.0 else 1.0
    how = "certain" if sure >= SURE else "not certain"
    second = standings.lines[1].player
    return (
        f"{first.player} leads, {points:.0f} ± {1.96 * error:.0f} Elo points above {second}: {how} ({_chance(sure)})."
    )


def _chance(share: float) -> str:
    """Return a chance as a percentage that never claims to be whole."""
    return ">99.9%" if share > 0.999 else f"{share:.1%}"


def _cycle(cycles: list[Cycle], none: str) -> str:
    """Return the clearest cycle; ``none`` if there is none."""
    if not cycles:
        return none
    cycle, more = cycles[0], len(cycles) - 1
    others = f" {more} more cycle{'s' * (more > 1)}." if more else ""
    return (
        f"A cycle: {cycle} (by {number(cycle.margin)} a match or more), so Elo misleads here; Nash averaging does not."
        f"{others}"
    )


def _ranking(standings: GameStandings, newest: str | None) -> Table:
    """Return the best players and, wherever it stands, the newest snapshot."""
    rated = any(line.skill is not None for line in standings.lines)
    table = plain_table("rank", "player", "Elo", *["rating"] * rated, "Nash avg.", "weight", "matches")
    for rank, line in _shown(standings, newest):
        mark = f"{line.player} (newest)" if line.player == newest else line.player
        elo = f"{line.elo:.0f} ± {1.96 * line.elo_error:.0f}{'*' * bool(line.apart)}"
        nash = number(0.0 if abs(line.nash) < 5e-4 else line.nash, True)
        skill = [_skill(line.skill)] * rated
        table.add_row(str(rank), mark, elo, *skill, nash, percent(line.weight), f"{line.matches:,}")
    return table


def _role_ratings(standings: GameStandings, newest: str | None) -> Table | None:
    """Return the online ratings by role, if there are any."""
    roles = sorted({role for line in standings.lines for role in line.by_role})
    table = plain_table("rating by role", *[f"as {role}" for role in roles])
    for _, line in _shown(standings, newest):
        table.add_row(line.player, *[_skill(line.by_role.get(role)) for role in roles])
    return table if roles else None


def _shown(standings: GameStandings, newest: str | None) -> list[tuple[int, Line]]:
    """Return the lines that are shown, with their ranks."""
    ranked = enumerate(standings.lines, 1)
    return [(rank, line) for rank, line in ranked if rank <= SHOWN or line.player == newest]


def _skill(skill: Skill | None) -> str:
    return "–" if skill is None else f"{skill[0]:.1f} ± {1.96 * skill[1]:.1f}"


def _matrix_table(standings: GameStandings) -> Table:
    """Return the leading players' results against one another."""
    matrix, shown = standings.matrix, min(ACROSS, len(standings.lines))
    values, errors = (
        (matrix.returns, matrix.returns_error) if standings.together else (matrix.margin, matrix.careful_error())
    )
    title = "mean return" if standings.together else "margin"
    table = plain_table(f"{title} (? may be 0)", *[str(column + 1) for column in range(shown)])
    for row in range(shown):
        cells = [_entry(float(values[row, column]), float(errors[row, column])) for column in range(shown)]
        table.add_row(f"{row + 1} {standings.lines[row].player}", *cells)
    return table


def _next_table(standings: GameStandings) -> Table:
    table = plain_table("should play next", "", "deals so far", "margin so far")
    for meeting in standings.next_meetings[:SHOWN]:
        table.add_row(meeting.a, meeting.b, str(meeting.deals), number(meeting.margin, True))
    return table


def _together_table(standings: GameStandings) -> Table:
    """Return how much each earns with others, where all seats earn the same."""
    earned = _earned(standings)
    table = plain_table("player", "mean return with others", "with itself", "matches")
    for line in sorted(standings.lines, key=earned, reverse=True)[:SHOWN]:
        place = standings.matrix.players.index(line.player)
        alone = float(standings.matrix.returns[place, place])
        table.add_row(line.player, number(earned(line)), number(_known(alone)), f"{line.matches:,}")
    return table


def _earned(standings: GameStandings) -> Any:
    """Return a function that gives a line's mean return with each other player that it met."""
    returns = standings.matrix.returns.copy()
    np.fill_diagonal(returns, np.nan)
    means = dict(zip(standings.matrix.players, np.nanmean(returns, axis=1).tolist(), strict=True))
    return lambda line: means[line.player]


def _with_interval(mean: float, error: float) -> str:
    if math.isnan(error):
        return f"{number(mean, True)} (no interval)"
    return f"{number(mean, True)} ({number(mean - 1.96 * error, True)} to {number(mean + 1.96 * error, True)})"


def _entry(mean: float, error: float) -> str:
    """Return a mean, with a question mark where its 95 % interval holds 0 or is not known."""
    if math.isnan(mean):
        return "–"
    return f"{mean:+.2f}".replace("-", "−") + "?" * (not abs(mean) > 1.96 * error)


def _line(rank: int, line: Line) -> dict[str, Any]:
    return {
        "rank": rank,
        "player": line.player,
        "elo": {"mean": line.elo, "low": line.elo - 1.96 * line.elo_error, "high": line.elo + 1.96 * line.elo_error},
        "component": line.apart,
        "rating": skill_document(line.skill),
        "by_role": {role: skill_document(skill) for role, skill in line.by_role.items()},
        "nash_averaging": line.nash,
        "weight": line.weight,
        "margin": line.margin,
        "matches": line.matches,
    }


def skill_document(skill: Skill | None) -> dict[str, float] | None:
    """Return an online rating with its 95 % interval."""
    if skill is None:
        return None
    mu, sigma = skill
    return {"mu": mu, "sigma": sigma, "low": mu - 1.96 * sigma, "high": mu + 1.96 * sigma}


def _role_result(result: RoleResult) -> dict[str, Any]:
    def estimate(mean: float, error: float) -> dict[str, float | None]:
        low, high = _known(mean - 1.96 * error), _known(mean + 1.96 * error)
        return {"mean": mean, "low": low, "high": high}

    return {
        "player": result.player,
        "opponent": result.opponent,
        "role": result.role,
        "matches": result.matches,
        "return": estimate(result.returns, result.returns_error),
        "score": estimate(result.score, result.score_error),
    }


def _nullable(matrix: np.ndarray) -> list[list[float | None]]:
    return [[_known(value) for value in row] for row in matrix.tolist()]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
