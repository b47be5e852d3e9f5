"""Benchmarks: figures that are stored are the figures that are shown, and their statistics are the textbook's."""

import json
import sys
from statistics import fmean

import pyspiel
import pytest

import league
from benchmarks import __main__ as bench
from benchmarks.__main__ import PARTS, STUDIES
from benchmarks.report import comparison, page
from benchmarks.studies import presets
from benchmarks.studies.credit import rules as credit
from league import SweptRun, TrainingRun
from league.lab.sweeps.record import Cost
from league.training.loop import session

POLICIES = credit.STUDIES["policies"]
ORIGIN = {
    "command": "python -m benchmarks pocket --seeds 0 1 2",
    "commit": "0123456789",
    "uncommitted_changes": False,
    "date": "2026-01-31",
    "machine": {"cpu": "Some CPU", "cores": 2, "memory_gb": 25.3, "system": "Linux"},
    "packages": {"python": "3.11.7", "textarena": None},
}


def seed(number, **changes):
    figures = {
        "seconds": 300.0,
        "peak_memory_gb": 1.5,
        "kuhn_exploitability": 0.08,
        "kuhn_mixture_exploitability": 0.04,
    }
    figures |= {"tic_tac_toe_score": 0.9, "tiny_hanabi_share_of_optimum": 0.95, "illegal_rate": 0.0}
    return {"seed": number, **figures, **changes}


def test_the_interval_is_students():
    # Values 1 to 5: mean 3, s = 1.5811, t(4, 0.975) = 2.7764, so the half width is 2.7764 · 1.5811 / √5.
    assert comparison.interval([1, 2, 3, 4, 5]) == pytest.approx((1.0368, 4.9632), abs=1e-4)


def test_a_table_shows_every_seed_and_which_targets_were_missed():
    seeds = [seed(0), seed(1, tic_tac_toe_score=0.8), seed(2, kuhn_exploitability=0.11)]
    text = page.table("returns", ORIGIN | {"result": {"preset": "pocket-returns", "seeds": seeds}})
    lines = {line.split(" | ")[0]: line for line in text.splitlines()}
    # t(2, 0.975) = 4.3027, s = 0.01732: 0.09 ± 0.0430.
    kuhn = "≤ 0.100 | 0.090 (0.047 to 0.133) | 0.080 | 0.080 | 0.110 | no (2 of 3) |"
    assert lines["| Kuhn poker: exploitability of the last main"].endswith(kuhn)
    assert lines["| tic-tac-toe: score against random, 400 matches"].endswith("0.900 | 0.800 | 0.900 | no (2 of 3) |")
    assert lines["| illegal replies"].endswith("| ≤ 0.0% | 0.0% | 0.0% | 0.0% | 0.0% | yes |")
    assert "at commit 0123456789: 2 cores of Some CPU" in text
    one = ORIGIN | {"machine": ORIGIN["machine"] | {"cores": 1}, "result": {"preset": "pocket-returns", "seeds": seeds}}
    assert "at commit 0123456789: 1 core of Some CPU" in page.table("returns", one)


def test_of_many_seeds_a_table_shows_the_spread():
    seeds = [seed(number, kuhn_exploitability=0.01 * number, processor_seconds=9.0) for number in range(1, 9)]
    lines = page.table("pocket", ORIGIN | {"result": {"preset": "pocket", "seeds": seeds}}).splitlines()
    assert lines[2].endswith("| lowest | median | highest | met |")
    [kuhn] = [line for line in lines if line.startswith("| Kuhn poker: exploitability of the last main")]
    assert kuhn.split(" | ")[3:6] == ["0.010", "0.045", "0.080"]


def test_conditions_are_compared_seed_by_seed():
    """Differences 0.1, 0.2, 0.3: mean 0.2, s = 0.1, t(2, 0.975) = 4.3027, so ± 0.2484; with s = 0.01, ± 0.0248."""

    def condition(name, *figures):
        return {"name": name, "runs": [{"figure": f, "offset": 0.1, "spread": 0.5, "grad_norm": 2.0} for f in figures]}

    conditions = [condition("plain", 0.5, 0.5, 0.5), condition("a", 0.6, 0.7, 0.8), condition("b", 0.69, 0.7, 0.71)]
    for less_is_better, verdict in ((True, "worse"), (False, "better")):
        table = {"game": "Chess", "figure": "f", "less_is_better": less_is_better, "conditions": conditions}
        lines = comparison.comparison_lines([table])
        assert lines[-3] == "| plain | 0.500 (0.500 to 0.500) | – | 0.10 | 0.50 | 2.00 |"
        assert "| +0.200 (-0.048 to +0.448): no clear difference |" in lines[-2]
        assert f"| +0.200 (+0.175 to +0.225): {verdict} |" in lines[-1]


@pytest.mark.thorough
def test_a_study_trains_every_condition_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    """The real thing at its smallest: two conditions of Kuhn poker, two iterations, stopped in the second run."""
    monkeypatch.setattr(credit, "COMMON", credit.COMMON.replace("120", "2").replace("steps = 40", "steps = 2"))
    monkeypatch.setitem(credit.STUDIES, "policies", POLICIES._replace(games=("kuhn_poker",)))
    train, begun = session.train, []

    def stops_in_the_second(config, path, **how):
        begun.append(path)
        if len(begun) == 2:  # after its first iteration
            how["watch"] = lambda iteration, _: iteration == 1
        return train(config, path, **how)

    monkeypatch.setattr(session, "train", stops_in_the_second)
    with pytest.raises(KeyboardInterrupt):
        credit.measure_study("policies", [0], 0, tmp_path / "stopped")
    [table] = credit.measure_study("policies", [0], 0, tmp_path / "stopped")["tables"]
    assert len(begun) == 2  # the second one was resumed
    shared, separate = (condition["runs"][0] for condition in table["conditions"])
    assert all(0.0 < figures["figure"] < 1.0 and figures["seconds"] > 0.0 for figures in (shared, separate))
    assert shared["figure"] != separate["figure"]
    [table] = credit.measure_study("policies", [0], 0, tmp_path / "whole")["tables"]
    whole = table["conditions"][1]["runs"][0]
    assert whole | {"seconds": 0.0} == separate | {"seconds": 0.0}


def test_the_page_is_what_its_stored_results_render_to():
    for part in PARTS:
        text = page.page_of(part).read_text(encoding="utf-8")
        path = page.RESULTS / f"{part}.json"
        if path.exists():
            table = page.table(part, json.loads(path.read_text(encoding="utf-8")))
            assert page.insert(text, part, table) == text, (
                f"{path} is newer than the page: python -m benchmarks --render"
            )
        else:
            assert page.insert(text, part, "Not measured yet.") == text


def test_a_target_that_was_lowered_says_what_was_wanted_and_why():
    (row,) = [row for row in page.ROWS["long"] if row.key == "tic_tac_toe_score"]
    text = page.table("long", ORIGIN | {"result": {"preset": "pocket-long", "seeds": [seed(0)]}})
    assert "| ≥ 0.900 (0.950 was wanted, but perfect play that draws among its best moves has 0.936) | 0.900 |" in text
    assert row.target < 0.936


def test_the_score_of_perfect_play_that_draws_among_its_best_moves():
    """What the page of `pocket-long` holds tic-tac-toe's target against, from OpenSpiel's game by enumeration."""
    values, scores = {}, {}

    def children(position):
        return [position.child(action) for action in position.legal_actions()]

    def value(position):
        """Return crosses' result in perfect play, -1 to 1."""
        key = str(position)
        if key not in values:
            best = max if position.current_player() == 0 else min
            values[key] = position.returns()[0] if position.is_terminal() else best(map(value, children(position)))
        return values[key]

    def score(position, seat):
        """Return the seat's score, 0 to 1, against random play."""
        key = str(position), seat
        if key not in scores and position.is_terminal():
            scores[key] = (1 + position.returns()[seat]) / 2
        elif key not in scores:
            moves = children(position)
            if position.current_player() == seat:
                moves = [move for move in moves if value(move) == value(position)]
            scores[key] = fmean(score(move, seat) for move in moves)
        return scores[key]

    start = pyspiel.load_game("tic_tac_toe").new_initial_state()
    assert [score(start, seat) for seat in (0, 1)] == pytest.approx([0.984, 0.889], abs=5e-4)
    assert fmean(score(start, seat) for seat in (0, 1)) == pytest.approx(0.936, abs=5e-4)


def test_a_part_without_marks_in_the_page_is_refused():
    with pytest.raises(ValueError, match=r"<!-- chess: written"):
        page.insert("# Results", "chess", "text")
    with pytest.raises(ValueError, match=r"No page in .* holds <!-- chess: written"):
        page.page_of("chess")


def test_parts_whose_system_is_not_installed_say_so_before_anything_is_measured(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(bench, "find_spec", lambda library: None)
    monkeypatch.setattr(bench, "run", lambda part, _: ran.append((part, capsys.readouterr().err)) or True)
    monkeypatch.setattr(bench, "render", lambda: None)
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    assert bench.main() == 0
    assert [part for part, _ in ran] == [
        part for part in PARTS if part not in ("arena", "learner", "textarena", "vllm")
    ]
    told = ran[0][1].splitlines()
    assert [line.split(" cannot be measured here: ")[0] for line in told] == [
        *("arena", "learner", "textarena", "vllm")
    ]
    assert "trl and datasets not installed. make bench installs into .venv-bench" in told[1]
    assert "".join(err for _, err in ran[1:]) == ""


def test_a_part_that_was_named_and_cannot_run_is_a_failure(monkeypatch, capsys):
    monkeypatch.setattr(bench, "find_spec", lambda library: None)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "arena", "learner"])
    pages = {path: path.read_bytes() for path in page.RESULTS.rglob("*.*")}
    assert bench.main() == 1
    assert "stored results are unchanged: arena, learner" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in page.RESULTS.rglob("*.*")} == pages


def test_make_installs_every_library_that_a_part_needs():
    makefile = (page.ROOT / "Makefile").read_text()
    constraints = (page.ROOT / "constraints-bench.txt").read_text()
    for libraries, command in bench.NEEDS.values():
        assert f"{bench.PLACES[command]}/.installed:" in makefile
        if command == "make bench":
            assert all(f"\n{library}==" in constraints for library in libraries)


def test_a_preset_is_a_sweep_that_asks_every_command_once(monkeypatch, tmp_path):
    asked = []

    def swept(configs, folder, *, seeds, commands, **_):
        asked.append((list(configs), configs["pocket-free"].iterations, folder, *commands))
        answers = {command: {"exploitability": 0.2, "illegal_rate": 0.01} for command in commands}
        cost = Cost(12.0, 10.0, 11.0, 0.5)
        return [SweptRun("pocket-free", number, TrainingRun(folder), cost, answers) for number in seeds]

    monkeypatch.setattr(league, "sweep", swept)
    result = presets.measure("pocket-free", [0, 1], ["iterations=3"], tmp_path)
    figures = {"kuhn_exploitability": 0.2, "illegal_rate": 0.01}
    cost = {"seconds": 12.0, "processor_seconds": 11.0, "peak_memory_gb": 0.5}
    assert result == {"preset": "pocket-free", "seeds": [{"seed": number, **cost, **figures} for number in (0, 1)]}
    commands = ("exploitability RUN --game kuhn_poker", "match RUN random --game kuhn_poker --matches 4000")
    assert asked == [(["pocket-free"], 3, tmp_path, *commands)]


def test_every_figure_that_is_shown_is_measured():
    assert set(page.ROWS) == set(PARTS) - set(STUDIES) - {
        *("tabular", "until", "settling", "solvers", "textarena", "defence", "injections"),
        *("large_games", "dark_boards", "large_models"),
    }
    for part, preset in (
        ("pocket", "pocket"),
        ("returns", "pocket-returns"),
        ("long", "pocket-long"),
        ("free", "pocket-free"),
    ):
        measured = {*presets.COST, *presets.QUESTIONS[preset]}
        assert {row.key for row in page.ROWS[part]} <= measured


def test_what_a_library_prints_beside_a_result_is_no_part_of_it():
    printed = b'INFO loading\n[0001] ready\n{"a": {"median": 1.5}}\n(EngineCore) bye\n'
    assert bench._document(printed) == {"a": {"median": 1.5}}
    assert bench._document(b'{"a": 1}') == {"a": 1}
    with pytest.raises(json.JSONDecodeError):
        bench._document(b"INFO loading\n")
