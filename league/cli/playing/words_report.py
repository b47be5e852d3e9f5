"""What ``league match --words`` says: whether a player's words before its acts matter, for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from league.cli.formatting import estimate_to_json, format_interval, format_number, format_percent, plain_table

if TYPE_CHECKING:
    from rich.console import Console

    from league.lab.comparisons.words import WordsReport

SHOWN = 5  # positions
LONGEST = 60  # characters of words that are shown


def words_to_json(report: WordsReport) -> dict[str, Any]:
    """Return a player's report as JSON data."""
    return {
        "player": report.player,
        "turns": report.turns,
        "with_words": report.with_words,
        "words_a_turn": report.length,
        "changes": {
            row.name: {
                **estimate_to_json("moved", row.moved),
                **estimate_to_json("changed", row.changed),
                "turns": row.turns,
            }
            for row in report.rows
        },
        "positions": [position._asdict() | {"moved": dict(position.moved)} for position in report.positions],
    }


def print_words(report: WordsReport, console: Console) -> None:
    """Print whether the words matter, by change and at the positions where they matter most."""
    console.print(f"\nThe words of {report.player} before its acts", style="bold", markup=False)
    if not report.with_words:
        console.print(
            f"In {report.turns} turns it wrote nothing but the act. There are no words to change: every figure is 0, "
            "but for chance words of fresh samples."
        )
        return
    console.print(
        f"{report.length:.1f} words a turn, and some in {format_percent(report.with_words / report.turns)} of "
        f"{report.turns} turns. The act, when it is due after"
    )
    table = plain_table("", "moves by (total variation)", "is another in", "turns")
    for row in report.rows:
        changed = format_interval(row.changed)
        table.add_row(row.meaning, format_interval(row.moved), changed, str(row.turns))
    console.print(table)
    console.print("Without words the act moves most at:")
    for place in report.positions[:SHOWN]:
        seen = " / ".join(line for line in place.observation.splitlines() if line)
        line = f"  {format_number(place.without)}  {place.role}: {seen[-LONGEST:]}  “{place.words[:LONGEST]}”"
        console.print(line, markup=False, highlight=False)
