"""``league match``: two players against each other, every deal in every seating."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from arena.remote.usage import Usage, in_words
from arena.replays import save_episodes
from games.registry import make_game
from games.spec import Utility
from league.commands.words import interval, number, percent, transcript
from league.head_to_head import A, B, HeadToHead, compare, schedule
from league.payoffs import Estimate
from league.player_engines import Engines
from league.players import resolve


class Found(NamedTuple):
    """What the matches show, and what players behind servers came to."""

    result: HeadToHead
    usage: dict[str, Usage]  # by player


def run(arguments: argparse.Namespace) -> Found:
    """Play the matches; with ``--save``, write them."""
    spec = make_game(arguments.game).spec
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Engines() as engines:
        first, second = (resolve(text, spec, engines) for text in arguments.players)
        total = len(schedule((first, second), arguments.matches, arguments.seed))
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(f"playing {spec.name}", total=total)
            found = compare((first, second), arguments.matches, arguments.seed, lambda _: progress.advance(task))
        if arguments.save:
            save_episodes(Path(arguments.save), found.episodes)
        return Found(found, engines.usage())


def document(whole: Found) -> dict[str, Any]:
    """Return the result as JSON data. What was not computed is null."""
    found = whole.result
    return {
        "game": found.spec.name,
        "players": list(found.players),
        "matches": len(found.episodes),
        "deals": found.seated[-1].deal + 1,
        "seed": found.seed,
        **_flat("score_a", found.score),
        **_flat("return_a", found.returns[A]),
        **_flat("return_b", found.returns[B]),
        **_flat("lead_a", found.lead),
        "by_role": {
            name: {**_flat("score", role.score), **_flat("return", role.returns), "matches": role.matches}
            for name, role in found.by_role.items()
        },
        "illegal_rate": found.illegal_rates[A],
        "illegal_rate_b": found.illegal_rates[B],
        "forfeits": found.forfeits,
        "cooperative": found.spec.utility is Utility.IDENTICAL,
        "optimum": found.spec.optimum,
        "share_of_optimum": found.share_of_optimum,
        "transcript": transcript(found.episodes[0], _seat_labels(found, 0)),
        "usage": {player: usage._asdict() for player, usage in whole.usage.items()},
    }


def tell(whole: Found, console: Console) -> None:
    """Print the result in words."""
    found = whole.result
    a, b = found.players
    ways = len({match.seating for match in found.seated})
    deals = found.seated[-1].deal + 1
    console.print(f"{found.spec.name}: {a} against {b}", style="bold")
    console.print(
        f"{len(found.episodes)} matches: {deals} deals, each played in all {ways} seatings (seed {found.seed})."
    )
    console.print()
    _tell_together(found, console) if found.spec.utility is Utility.IDENTICAL else _tell_verdict(found, console)
    console.print()
    console.print(_role_table(found))
    rates = [f"{name} {percent(rate)}" for name, rate in zip(found.players, found.illegal_rates, strict=True)]
    console.print(f"\nIllegal replies: {', '.join(rates)}. Matches that ended by forfeit: {found.forfeits}.")
    console.print("\nOne of the matches:", style="bold")
    console.print("\n".join(transcript(found.episodes[0], _seat_labels(found, 0))), markup=False)
    for line in in_words(whole.usage):
        console.print(f"\n{line}", markup=False)


def _tell_verdict(found: HeadToHead, console: Console) -> None:
    a, b = found.players
    low, high = found.lead.low, found.lead.high
    if low is None or high is None:
        verdict = f"One deal shows nothing about who is stronger, {a} or {b}: play more matches."
    elif low > 0:
        verdict = f"{a} is stronger than {b}."
    elif high < 0:
        verdict = f"{a} is weaker than {b}."
    else:
        verdict = f"These matches do not show who is stronger, {a} or {b}."
    console.print(verdict)
    console.print(f"{a}'s mean return is {interval(found.returns[A], signed=True)} a match.")
    console.print(f"{a}'s score is {interval(found.score)}, where a win counts 1, a draw ½ and a loss 0.")


def _tell_together(found: HeadToHead, console: Console) -> None:
    """Tell a cooperative game, in which there is no winner."""
    console.print(f"In this game all players get the same. Their mean return together is {interval(found.returns[A])}")
    if found.share_of_optimum is None:
        console.print("a match; the best possible is not known.")
    else:
        console.print(f"a match, {percent(found.share_of_optimum)} of the best possible, {found.spec.optimum:g}.")


def _role_table(found: HeadToHead) -> Table:
    """Return the first player's results by role; a cooperative game has no score, because nobody wins."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    together = found.spec.utility is Utility.IDENTICAL
    table.add_column(f"{found.players[A]} as")
    for column in ("matches", "mean return", "95% interval", *(() if together else ("score", "95% interval"))):
        table.add_column(column, justify="right", no_wrap=True)
    for name, role in found.by_role.items():
        cells = [name, str(role.matches), number(role.returns.mean, signed=True), _span(role.returns, signed=True)]
        table.add_row(*cells, *([] if together else [number(role.score.mean), _span(role.score)]))
    return table


def _span(estimate: Estimate, signed: bool = False) -> str:
    return f"{number(estimate.low, signed)} to {number(estimate.high, signed)}" if estimate.low is not None else "–"


def _flat(name: str, estimate: Estimate) -> dict[str, float | None]:
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _seat_labels(found: HeadToHead, index: int) -> list[str]:
    """Return who sits where in one match; two players of one name are told apart."""
    a, b = found.players
    names = (a, b) if a != b else (f"{a} (A)", f"{b} (B)")
    return [names[who] for who in found.seated[index].seating]
