"""Print one game's standings, and return them as JSON data, for every command that has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from league.cli.formatting import format_number, format_percent, plain_table

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from league.lab.standings.exact_standings import ExactStandings
    from league.lab.standings.payoff_matrix import PairRoleResult
    from league.lab.standings.standings import GameStandings, Standing
    from league.lab.standings.teamwork import Teamwork
    from league.population.results.ratings import Skill
    from league.theory.cycles import Cycle

SHOWN = 12  # rows of a table; --json has all of them
CERTAIN = 0.975  # probability from which an order is called certain: then the 95 % interval is above 0
SIZE = 8  # rows and columns


def print_game(
    standings: GameStandings,
    console: Console,
    newest: str | None = None,
    matrix: bool = False,
    exact: ExactStandings | None = None,
) -> None:
    """Print conclusions, then tables of at most twelve rows; the ``newest`` snapshot is marked and always shown.

    The ``matrix`` has ``exact`` payoffs where they are known.
    """
    if not standings.ranking:
        console.print("No two players have met yet.")
        return
    for sentence in _conclusions(standings):
        console.print(sentence, markup=False)
    console.print(_together_table(standings) if standings.cooperative else _ranking(standings, newest))
    if not standings.cooperative and (roles := _role_ratings(standings, newest)) is not None:
        console.print(roles)
    if newest is not None and (results := standings.by_role(newest)):
        console.print(role_table(results, standings.cooperative))
    if matrix:
        console.print(matrix_table(standings, exact))
    if not standings.cooperative and standings.next_pairs:
        console.print(_next_table(standings))


def print_exact(exact: ExactStandings, console: Console) -> None:
    """Print the support of the snapshots' exact Nash average, and their clearest cycle."""
    weights = sorted(zip(exact.players, exact.average.mixture.tolist(), strict=True), key=lambda pair: -pair[1])
    mixed = ", ".join(f"{player} {format_percent(weight)}" for player, weight in weights[:3] if weight > 0.0005)
    more = sum(weight > 0.0005 for _, weight in weights[3:])
    console.print(
        f"exact payoffs of {len(exact.players)} snapshots: Nash averaging gives {mixed}"
        f"{f' and {more} more' if more else ''}. {_describe_cycle(exact.cycles, 'No snapshot is in a cycle.')}",
        markup=False,
    )


def describe_teamwork(lines: Sequence[Teamwork]) -> str:
    """Return a sentence on the newest snapshot's return with partners that are held out."""
    newest = lines[-1]
    strangers, source = ", ".join(newest.strangers), "exactly" if newest.exact else "by matches"
    earns = (
        f"{newest.player} earns {format_number(newest.with_strangers)} with {strangers}, which it never met in training"
    )
    if newest.score is None or newest.with_itself is None:
        alone = "what it earns with itself is not " + ("known" if newest.with_itself is None else "above 0")
        return f"Ad-hoc teamwork, {source}: {earns}; {alone}, so there is no score."
    alone = format_number(newest.with_itself)
    return f"Ad-hoc teamwork, {source}: {earns}, and {alone} with itself: a score of {format_number(newest.score)}."


def game_to_json(standings: GameStandings) -> dict[str, Any]:
    """Return the standings as JSON data. Values that were not measured are null."""
    matrix = standings.matrix
    return {
        "matches": standings.matches,
        "ranking": [_line_to_json(rank, line) for rank, line in enumerate(standings.ranking, 1)],
        "lead": None if standings.lead is None else {"points": standings.lead[0], "error": standings.lead[1]},
        "meta_strategy": {
            "solver": standings.solver,
            "effective_size": standings.effective_size,
            "weights": {line.player: line.weight for line in standings.ranking},
        },
        "cycles": [{"players": list(cycle.players), "margin": cycle.margin} for cycle in standings.cycles],
        "next": [meeting._asdict() for meeting in standings.next_pairs],
        "matrix": {
            "players": list(matrix.players),
            "matches": matrix.matches.tolist(),
            "deals": matrix.deals.tolist(),
            **{
                name: _nullable(getattr(matrix, name))
                for name in ("margin", "margin_error", "score", "score_error", "returns", "returns_error")
            },
        },
        "payoffs": [
            _role_result_to_json(result) for line in standings.ranking for result in standings.by_role(line.player)
        ],
    }


def role_table(results: list[PairRoleResult], together: bool) -> Table:
    """Return one player's results against each opponent by role."""
    player = results[0].player
    table = plain_table(
        f"{player} {'with' if together else 'against'}", "as", "matches", "mean return, 95% interval", "score"
    )
    for result in results[:SHOWN]:
        returns = _with_interval(result.returns, result.returns_error)
        score = "–" if together else format_number(result.score)
        table.add_row(result.opponent, result.role, f"{result.matches:,}", returns, score)
    return table


def _conclusions(standings: GameStandings) -> list[str]:
    """Return sentences on who leads and how certain that is, on cycles, and on the meta-strategy."""
    players = f"{standings.matches:,} matches, {len(standings.ranking):,} players."
    if standings.cooperative:
        best = max(standings.ranking, key=_return_with_others(standings))
        return [f"{players} All players of a match earn the same. Best with others: {best.player}."]
    sentences = [
        f"{players} {_leader(standings)}",
        _describe_cycle(standings.cycles, "No cycle is certain from matches alone."),
    ]
    first = standings.ranking[0]
    weights = sorted(standings.ranking, key=lambda line: -line.weight)[:3]
    mixed = ", ".join(f"{line.player} {format_percent(line.weight)}" for line in weights if line.weight > 0.0005)
    size = f"{standings.effective_size:.1f}"
    sentences.append(
        f"No player is best alone: the meta-strategy is as mixed as {size} players of equal weight ({mixed})."
        if standings.effective_size > 1.01
        else f"The meta-strategy is {max(standings.ranking, key=lambda line: line.weight).player} alone."
    )
    if any(line.component for line in standings.ranking):
        sentences.append(
            f"No chain of matches connects the players marked * with {first.player}: their Elo is on a separate scale."
        )
    return sentences


def _leader(standings: GameStandings) -> str:
    """Return a sentence on who leads, by how much, and whether that is certain."""
    first = standings.ranking[0]
    if standings.lead is None:
        return f"{first.player} leads."
    points, error = standings.lead
    probability = NormalDist().cdf(points / error) if error > 0.0 else 1.0
    verdict = "certain" if probability >= CERTAIN else "not certain"
    second = standings.ranking[1].player
    lead = f"{points:.0f} ± {1.96 * error:.0f} Elo points above {second}"
    return f"{first.player} leads, {lead}: {verdict} ({_format_probability(probability)})."


def _format_probability(probability: float) -> str:
    """Return a probability as a percentage that is never rounded to 100 %."""
    return ">99.9%" if probability > 0.999 else f"{probability:.1%}"


def _describe_cycle(cycles: list[Cycle], none: str) -> str:
    """Return a sentence on the clearest cycle; ``none`` if there is no cycle."""
    if not cycles:
        return none
    cycle, more = cycles[0], len(cycles) - 1
    others = f" {more} more cycle{'s' * (more > 1)}." if more else ""
    if cycle.margin < 0.0005:
        return (
            f"A cycle, by less than 0.001 a match: {cycle}. Any ranking of these players misleads only "
            f"slightly.{others}"
        )
    margin = f"by {format_number(cycle.margin)} a match or more"
    return f"A cycle: {cycle} ({margin}), so Elo misleads here; Nash averaging does not.{others}"


def _ranking(standings: GameStandings, newest: str | None) -> Table:
    """Return a table of the best players, and of the newest snapshot whatever its rank."""
    rated = any(line.skill is not None for line in standings.ranking)
    table = plain_table("rank", "player", "Elo", *["rating"] * rated, "Nash avg.", "weight", "matches")
    for rank, line in _shown_lines(standings, newest):
        name = f"{line.player} (newest)" if line.player == newest else line.player
        elo = f"{line.elo:.0f} ± {1.96 * line.elo_error:.0f}{'*' * bool(line.component)}"
        nash = format_number(0.0 if abs(line.nash) < 5e-4 else line.nash, True)
        skill = [_skill(line.skill)] * rated
        table.add_row(str(rank), name, elo, *skill, nash, format_percent(line.weight), f"{line.matches:,}")
    return table


def _role_ratings(standings: GameStandings, newest: str | None) -> Table | None:
    """Return a table of the online ratings by role; None if there are none."""
    roles = sorted({role for line in standings.ranking for role in line.by_role})
    table = plain_table("rating by role", *[f"as {role}" for role in roles])
    for _, line in _shown_lines(standings, newest):
        table.add_row(line.player, *[_skill(line.by_role.get(role)) for role in roles])
    return table if roles else None


def _shown_lines(standings: GameStandings, newest: str | None) -> list[tuple[int, Standing]]:
    """Return the lines to show, with their ranks."""
    ranked = enumerate(standings.ranking, 1)
    return [(rank, line) for rank, line in ranked if rank <= SHOWN or line.player == newest]


def _skill(skill: Skill | None) -> str:
    return "–" if skill is None else f"{skill[0]:.1f} ± {1.96 * skill[1]:.1f}"


def _next_table(standings: GameStandings) -> Table:
    table = plain_table("should play next", "", "deals so far", "margin so far")
    for meeting in standings.next_pairs[:SHOWN]:
        table.add_row(meeting.a, meeting.b, str(meeting.deals), format_number(meeting.margin, True))
    return table


def _together_table(standings: GameStandings) -> Table:
    """Return a table of each player's mean return with others and with itself, for a cooperative game."""
    return_with_others = _return_with_others(standings)
    table = plain_table("player", "mean return with others", "with itself", "matches")
    for line in sorted(standings.ranking, key=return_with_others, reverse=True)[:SHOWN]:
        index = standings.matrix.players.index(line.player)
        with_itself = _none_for_nan(float(standings.matrix.returns[index, index]))
        table.add_row(
            line.player, format_number(return_with_others(line)), format_number(with_itself), f"{line.matches:,}"
        )
    return table


def _return_with_others(standings: GameStandings) -> Callable[[Standing], float]:
    """Return a function of a line: its mean return over the other players that it met."""
    import numpy as np

    returns = standings.matrix.returns.copy()
    np.fill_diagonal(returns, np.nan)
    means = dict(zip(standings.matrix.players, np.nanmean(returns, axis=1).tolist(), strict=True))
    return lambda line: means[line.player]


def _with_interval(mean: float, error: float) -> str:
    if math.isnan(error):
        return f"{format_number(mean, True)} (no interval)"
    low, high = mean - 1.96 * error, mean + 1.96 * error
    return f"{format_number(mean, True)} ({format_number(low, True)} to {format_number(high, True)})"


def _line_to_json(rank: int, line: Standing) -> dict[str, Any]:
    return {
        "rank": rank,
        "player": line.player,
        "elo": {"mean": line.elo, "low": line.elo - 1.96 * line.elo_error, "high": line.elo + 1.96 * line.elo_error},
        "component": line.component,
        "rating": skill_to_json(line.skill),
        "by_role": {role: skill_to_json(skill) for role, skill in line.by_role.items()},
        "nash_averaging": line.nash,
        "weight": line.weight,
        "margin": line.margin,
        "matches": line.matches,
    }


def skill_to_json(skill: Skill | None) -> dict[str, float] | None:
    """Return an online rating with its 95 % interval."""
    if skill is None:
        return None
    mu, sigma = skill
    return {"mu": mu, "sigma": sigma, "low": mu - 1.96 * sigma, "high": mu + 1.96 * sigma}


def _role_result_to_json(result: PairRoleResult) -> dict[str, Any]:
    def estimate(mean: float, error: float) -> dict[str, float | None]:
        low, high = _none_for_nan(mean - 1.96 * error), _none_for_nan(mean + 1.96 * error)
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
    return [[_none_for_nan(value) for value in row] for row in matrix.tolist()]


def _none_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def matrix_table(standings: GameStandings, exact: ExactStandings | None) -> Table:
    """Return a table of the leading players' results against one another, from matches where none are ``exact``."""
    matrix, size = standings.matrix, min(SIZE, len(standings.ranking))
    values, errors = (
        (matrix.returns, matrix.returns_error) if standings.cooperative else (matrix.margin, matrix.pooled_error())
    )
    names = [line.player for line in standings.ranking[:size]]
    exact_index = {} if exact is None else {player: index for index, player in enumerate(exact.players)}
    title = "mean return" if standings.cooperative else "margin"
    note = "? may be 0; = is exact" if len(exact_index.keys() & set(names)) > 1 else "? may be 0"
    table = plain_table(f"{title} ({note})", *[str(column + 1) for column in range(size)])
    for row, player in enumerate(names):
        cells = []
        for column, other in enumerate(names):
            if exact is not None and player in exact_index and other in exact_index and row != column:
                cells.append(f"={_number(float(exact.margin[exact_index[player], exact_index[other]]))}")
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
