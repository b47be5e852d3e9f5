"""The page of an audit: one HTML file that needs no network."""

from __future__ import annotations

from datetime import UTC, datetime

from league.lab.audit.audit import AuditReport
from league.lab.audit.findings import bounds, findings, is_clear, reads_labels
from league.lab.audit.plan import PLANTED
from league.lab.reports.pages import render_page
from league.population.evaluation.exploitability_report import ExploitabilityReport


def audit_page(report: AuditReport) -> str:
    """Return the page."""
    by_game: dict[str, list[ExploitabilityReport]] = {}
    for one in report.exploitabilities:
        by_game.setdefault(one.spec.name, []).append(one)
    return render_page(
        "audit.html",
        report=report,
        findings=findings(report),
        games=by_game,
        cells={(one.spec.name, one.player): one for one in report.exploitabilities},
        glance=list(dict.fromkeys(one.player for one in report.exploitabilities)),
        bounds=bounds,
        is_clear=is_clear,
        reads_labels=reads_labels,
        planted=PLANTED,
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
