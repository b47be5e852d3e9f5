"""``league plan``: whether a run fits some GPUs, and how long an iteration takes, before anything is rented."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from league.cli.formatting import plain_table
from league.cli.parser import COUNT, Parser, add_json_option

if TYPE_CHECKING:
    from rich.console import Console

    from league.training.sizing.plan import RunPlan

EXAMPLES = (
    "qwen3-4b --gpus 8xH100",
    "qwen3-4b --gpus 1xH100 8xH100 64xH100",
    "my.toml --gpus 8xA100 --set model.source=Qwen/Qwen3-14B",
)
NOTES = """\
Memory follows from the model's config.json. Times come from the roofline, of which kernels are assumed to reach half,
or from the measurements of `python -m benchmarks gpu` (--rates). For what does not fit, the plan names the setting to
change.
"""


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("config", metavar="PRESET|FILE.toml", help="preset or .toml file to plan for")
    parser.add_argument(
        "--gpus", nargs="+", default=["8xH100"], metavar="NxCARD", help="cards, such as 8xH100; one plan for each"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting; may be given several times"
    )
    parser.add_argument(
        "--rates", type=Path, metavar="FILE", help="file that `python -m benchmarks gpu` wrote on such a card"
    )
    parser.add_argument("--prompt-tokens", type=COUNT, metavar="N", help="tokens of a prompt (default: 256)")
    parser.add_argument(
        "--reply-tokens", type=COUNT, metavar="N", help="tokens of a reply (default: half of the longest)"
    )
    add_json_option(parser)


class Report(NamedTuple):
    """The plans, side by side."""

    name: str
    plans: list[RunPlan]


def run(arguments: argparse.Namespace) -> Report:
    """Return a plan for each kind and number of cards."""
    from league.config.load import load
    from league.training.sizing.facts import ASSUMED_RATES, parse_gpus, read_rates, shape_of
    from league.training.sizing.plan import plan, usual_tokens

    gpus = [parse_gpus(text) for text in arguments.gpus]
    rates = ASSUMED_RATES if arguments.rates is None else read_rates(arguments.rates)
    config = load(arguments.config, ["threads=1", *arguments.set])
    tokens = usual_tokens(config)
    tokens = tokens._replace(
        prompt=arguments.prompt_tokens or tokens.prompt, reply=arguments.reply_tokens or tokens.reply
    )
    shape = shape_of(config)
    return Report(arguments.config, [plan(config, shape, cards, rates, tokens) for cards in gpus])


def to_json(report: Report) -> list[dict[str, Any]]:
    """Return the plans as JSON data."""
    return [
        {
            "gpus": str(made.gpus),
            "model": made.shape.name,
            "fits": made.fits,
            "parts": {part.name: part.bytes for part in made.parts},
            **{name: getattr(made, name) for name in ("engines", "learners", "replies", "seconds", "play", "learn")},
            **{name: getattr(made, name) for name in ("transfer", "driver", "bound", "warnings", "misfits")},
            "rates": made.rates.source,
        }
        for made in report.plans
    ]


def status(report: Report) -> int:
    """Return 1 if no plan fits."""
    return 0 if any(made.fits for made in report.plans) else 1


def print_report(report: Report, console: Console) -> None:
    """Print the plans side by side, then what does not fit and what costs time."""
    from league.training.sizing.plan import side_by_side

    first = report.plans[0]
    console.print(f"{report.name}: {first.shape.name}, {first.shape.weights / 1e9:.2f} B weights", markup=False)
    table = plain_table("", *(str(made.gpus) for made in report.plans))
    for name, values in side_by_side(report.plans):
        table.add_row(name, *values)
    console.print(table)
    console.print(f"Rates are {first.rates.source}.", markup=False)
    for made in report.plans:
        for sentence in made.misfits:
            console.print(f"{made.gpus} does not fit: {sentence}.", markup=False)
        for sentence in made.warnings if made.fits else ():
            console.print(f"{made.gpus}: {sentence}.", markup=False)
