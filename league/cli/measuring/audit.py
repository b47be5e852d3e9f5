"""``league audit``: one page on how exploitable players are, whether they improve, and what else may look like
improvement.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from games.common.destinations import file_to_write
from games.common.text import plain
from league.cli.formatting import print_usage
from league.cli.parser import COUNT, PLAYERS, Parser, add_json_option, add_player_options, add_sampling_options

if TYPE_CHECKING:
    from rich.console import Console

    from league.lab.audit.audit import AuditReport
    from league.lab.audit.plan import Plan

EXAMPLES = (
    "runs/pocket -o audit.html",
    "hf:smollm2-135m runs/pocket equilibrium --minutes 20",
    "openai:FILE.toml --plan",
)
NOTES = PLAYERS
MINUTES = 10


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("players", nargs="+", metavar="PLAYER")
    parser.add_argument("-o", "--output", metavar="FILE", help="where the page is written (default: audit.html)")
    parser.add_argument(
        "--minutes",
        type=COUNT,
        default=MINUTES,
        metavar="N",
        help=f"time for all measurements, the most valuable first (default: {MINUTES})",
    )
    parser.add_argument("--plan", action="store_true", help="print what would be measured and what it costs, and stop")
    add_sampling_options(parser)
    add_player_options(parser)
    add_json_option(parser)


class Audited(NamedTuple):
    """The plan, its results, and where the page goes."""

    plan: Plan
    report: AuditReport | None  # None: only the plan was asked for
    page: Path | None  # None: nothing but JSON, or the plan, was asked for


def run(arguments: argparse.Namespace) -> Audited:
    """Make the plan, print it with its cost, and carry it out. Answers of endpoints are kept next to the page."""
    from league.lab.audit.audit import Audit
    from league.population.players.answers import kept_in
    from league.population.players.engines import Engines
    from league.population.players.settings import PlayerSettings
    from league.training.monitors.terminal import Terminal

    page = None
    if arguments.output is not None or not (arguments.json or arguments.plan):
        page = file_to_write("audit.html" if arguments.output is None else arguments.output, "-o")
    endpoints = any(name.startswith("openai:") for name in arguments.players)
    beside = (page or Path("audit.html")).with_suffix(".answers.jsonl") if endpoints and not arguments.plan else None
    with kept_in(arguments.answers or beside) as answers, Engines(PlayerSettings.of(arguments), answers) as engines:
        with Terminal(stderr=True).status("timing the players"):
            audit = Audit(arguments.players, engines, minutes=arguments.minutes, replies=arguments.replies)
        engines.check_settings(arguments.players)
        if arguments.plan:
            return Audited(audit.plan, None, None)
        for sentence in audit.plan.sentences():
            sys.stderr.write(f"league: {plain(sentence)}\n")
        with Terminal(stderr=True).status("") as status:
            return Audited(audit.plan, audit.run(status.update), page)


def keep(audited: Audited) -> None:
    """Write the page."""
    from league.lab.audit.page import audit_page
    from league.lab.reports.pages import write_page

    if audited.page is not None and audited.report is not None:
        write_page(audited.page, audit_page(audited.report))
        sys.stderr.write(f"league: {audited.page} has the whole audit: open it in a browser.\n")


def to_json(audited: Audited) -> dict[str, Any]:
    """Return the report, or the plan, as JSON data. Values that were not computed are null."""
    from league.lab.audit.findings import document, plan_document

    return plan_document(audited.plan) if audited.report is None else document(audited.report)


def print_report(audited: Audited, console: Console) -> None:
    """Print one sentence for each finding; or the plan."""
    from league.lab.audit.findings import findings

    if audited.report is None:
        for sentence in audited.plan.sentences():
            console.print(sentence, markup=False)
        return
    for finding in findings(audited.report):
        mark = {True: "+", False: "!", None: " "}[finding.good]
        console.print(f"{mark} {finding.text}", markup=False)
    if refused := audited.report.refused:
        task, reason = refused[0]
        console.print(f"  Not measured: {len(refused)} of the plan, such as {task}: {reason}", markup=False)
    print_usage(audited.report.usage, console)
