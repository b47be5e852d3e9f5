"""Standings of snapshots whose policies are tables: by counting, not by matches."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from games.common.sealed_json import write_sealed
from games.registry import make_game
from league.cli import main
from league.lab.standings.exact_standings import exact_standings
from league.population.storage.run_dir import STATE_FOLDER, open_run
from league.theory.exact.exploitability import PolicyTable, head_to_head, uniform_table

KUHN = make_game("kuhn_poker").spec
BOTH = ("main-000000", "main-000010")


def tabulated(run_dir, folder, tables):
    """Return a copy of a run with tables of its snapshots, written as training writes them."""
    shutil.copytree(run_dir, folder)
    tables_folder = folder / STATE_FOLDER / "tables"
    tables_folder.mkdir(parents=True)
    for player, table in tables.items():
        rows = [[*key, *row] for key, row in table.probabilities.items()]
        write_sealed(tables_folder / f"{player}.{table.game}.json", rows)
    return folder


def passing(game="kuhn_poker"):
    return PolicyTable(game, dict.fromkeys(uniform_table(game).probabilities, (1.0, 0.0)))


def test_margins_are_the_mean_over_both_seatings_of_exact_values(run_dir, tmp_path):
    """Always to pass loses the ante to whoever bets: against uniform play it is worth less than nothing."""
    uniform = uniform_table("kuhn_poker")
    run = tabulated(run_dir, tmp_path / "run", dict(zip(BOTH, (uniform, passing()), strict=True)))
    standings = exact_standings(open_run(run), KUHN)
    assert standings.players == BOTH
    first, second = head_to_head([uniform, passing()])[0], head_to_head([passing(), uniform])[1]
    assert standings.margin == pytest.approx(np.array([[0.0, (first + second) / 2], [-(first + second) / 2, 0.0]]))
    assert standings.margin[0, 1] > 0.1
    assert standings.average.mixture == pytest.approx([1.0, 0.0], abs=1e-6)
    assert standings.cycles == []


def test_standings_do_not_wait_for_pytorch(run_dir, tmp_path):
    """Its import takes longer than all else that the command does."""
    run = tabulated(run_dir, tmp_path / "run", dict.fromkeys(BOTH, uniform_table("kuhn_poker")))
    code = f"import sys; from league.cli import main; main(['standings', {str(run)!r}]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_the_command_tells_it_and_a_run_without_tables_does_not(run_dir, tmp_path, capsys):
    run = tabulated(run_dir, tmp_path / "run", dict.fromkeys(BOTH, uniform_table("kuhn_poker")))
    assert main(["standings", str(run)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "exact payoffs of 2 snapshots: Nash averaging gives main-000000 50.0%, main-000010 50.0%." in printed
    assert main(["standings", str(run), "--json"]) == 0
    exact = json.loads(capsys.readouterr().out)["games"]["kuhn_poker"]["exact"]
    assert exact["weights"] == pytest.approx([0.5, 0.5])
    assert exact["margin"] == [[0.0, 0.0], [0.0, 0.0]]
    assert exact_standings(open_run(run_dir), KUHN) is None
    assert exact_standings(open_run(run), make_game("tiny_hanabi").spec) is None
    assert exact_standings(open_run(run), make_game("kuhn_poker(players=3)").spec) is None
