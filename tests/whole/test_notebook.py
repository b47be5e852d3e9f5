"""docs/first_league.ipynb runs from its first cell to its last, and says what the run says."""

import json

import nbclient
import nbformat
import pytest
from support.source import ROOT

NOTEBOOK = ROOT / "docs" / "start" / "first_league.ipynb"
PATIENCE = 600  # seconds for a cell


def test_it_is_kept_without_outputs():
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    nbformat.validate(nbformat.read(NOTEBOOK, as_version=4))
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert cells[0].source.startswith("# A first league")


@pytest.mark.slow
def test_it_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")  # as it will be by itself: jupyter_core warns until then
    monkeypatch.setenv("HOME", str(tmp_path))  # nothing of the user's own settings
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=PATIENCE, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = [
        "".join(out.get("text", "") for out in cell.get("outputs", []) if out.get("name") == "stdout")
        for cell in notebook.cells
    ]
    run = tmp_path / "runs" / "first"
    assert "main-000004" in said[3]
    assert said[5].startswith("score 0.")
    assert " → " in said[5]
    assert said[7].startswith("exploitability 0.")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    measured = [line["kuhn_poker/exploitability"] for line in lines if "kuhn_poker/exploitability" in line]
    table = notebook.cells[9].outputs[-1]["data"]["text/plain"]
    assert [float(row.split()[-1]) for row in table.splitlines()[1:-1]] == pytest.approx(measured, abs=1e-5)
    assert any("image/png" in out.get("data", {}) for out in notebook.cells[10].outputs)
