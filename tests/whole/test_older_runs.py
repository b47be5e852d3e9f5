"""Runs that older code stored are read, resumed, played and reported as that code did. See tests/data/older-runs."""

import json
import shutil

import numpy as np
import pytest
from scipy.sparse import diags
from scipy.sparse.linalg import lsmr
from support.source import ROOT

import league
from league.cli import main
from learners.values.regression import NO_WEIGHTS, Design, FeatureWeights, weights_of

STORED = ROOT / "tests" / "data" / "older-runs"
EXPECTED = json.loads((STORED / "expected.json").read_text(encoding="utf-8"))
GAME, SAVED = "kuhn_poker", 3  # iterations
SAME = {"rel": 1e-3, "abs": 1e-5}  # another processor rounds otherwise


@pytest.fixture(params=EXPECTED)
def stored(request, tmp_path):
    """Return a run's name and a copy of its folder, which nothing has changed."""
    return request.param, shutil.copytree(STORED / request.param, tmp_path / request.param)


def test_its_snapshots_are_as_exploitable_as_they_were(stored):
    name, path = stored
    expected = EXPECTED[name]
    for player, key in ((path, "exploitability"), (f"{path}@mixture", "mixture_exploitability")):
        exact = league.exploitability(player, game=GAME).exploitability
        assert exact == pytest.approx(expected[key], **SAME), player
        kept = [row[f"{GAME}/{key}"] for row in league.open_run(path).iterations() if f"{GAME}/{key}" in row]
        assert exact == pytest.approx(kept[-1], **SAME), player


def test_its_newest_snapshot_plays_the_same_matches(stored):
    name, path = stored
    played = league.match(path, "random", game=GAME, matches=40)
    assert played.lead.mean == pytest.approx(EXPECTED[name]["lead_over_random"])


def test_it_is_read_and_reported(stored, capsys):
    name, path = stored
    run = league.open_run(path)
    assert [row["iteration"] for row in run.iterations()] == list(range(SAVED + 1))
    assert [snapshot.step for snapshot in run.snapshots("main" if name == "exploited" else "first")][-1] >= 2
    assert {episode.request.game for episode in run.episodes()} == {GAME}
    assert run.ranking(GAME)
    page = path / "report.html"
    assert main(["report", str(path), "-o", str(page)]) == 0
    assert "reports on" in capsys.readouterr().out
    assert GAME in page.read_text(encoding="utf-8")


def former_fit(self, targets, counts, shrink, start=NO_WEIGHTS):
    """Return weights as older code did, which pulled them to the last solution instead of to 0."""
    roots = np.sqrt(counts)
    matrix, first = diags(roots) @ self.matrix, weights_of(start, self.ids)
    return FeatureWeights(self.ids, lsmr(matrix, roots * targets, shrink**0.5, 1e-6, 1e-6, maxiter=100, x0=first)[0])


def test_it_goes_on_as_the_older_code_went_on(stored, monkeypatch):
    """Every metric that the older code had: pending turns, values, alarms, pools and optimisers are all read back.

    Values are fitted as that code fitted them: what has been mended there since is held by the estimators' tests.
    """
    name, path = stored
    monkeypatch.setattr(Design, "fit", former_fit)
    league.resume(path)
    rows = league.open_run(path).iterations()[SAVED + 1 :]
    assert [row["iteration"] for row in rows] == [row["iteration"] for row in EXPECTED[name]["resumed"]]
    for row, expected in zip(rows, EXPECTED[name]["resumed"], strict=True):
        assert {key: row.get(key) for key in expected} == pytest.approx(expected, **SAME)
