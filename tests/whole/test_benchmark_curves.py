"""Benchmarks of populations: the curves that are shown are those that were measured."""

import pytest

from benchmarks.report.curves import curve_lines, gap_lines
from benchmarks.speed.match_store import measure
from benchmarks.studies.self_play import populations
from league.training.loop import session


def curve(compared=True):
    def condition(name, offset):
        runs = [
            {
                "seconds": 30.0 + seed,
                "iterations": list(range(0, 90, 10)),
                "newest": [8 - k + offset + seed for k in range(9)],
            }
            for seed in (0, 1, 2)
        ]
        return {"name": name, "runs": runs}

    conditions = [condition("plain", 1.0), condition("other", 0.0)]
    return {"game": "Chess", "figures": {"newest": "the newest"}, "compared": compared, "conditions": conditions}


def test_curves_show_quarters_ends_with_intervals_and_shares():
    """The ends of "other" are 0, 1, 2: mean 1, s = 1, t(2, 0.975) = 4.3027, so ± 2.484; of "plain" they are 1, 2, 3."""
    head, _, plain, other = curve_lines([curve()])[2:]
    assert head == (
        "| condition | figure | iteration 0 | iteration 20 | iteration 40 | iteration 60 | end, iteration 80 "
        "| ÷ plain, the newest | seconds |"
    )
    assert plain == "| plain | the newest | 10.000 | 8.000 | 6.000 | 4.000 | 2.000 (-0.484 to 4.484) | 1.000 | 31 |"
    assert other.endswith("| 1.000 (-1.484 to 3.484) | 0.500 | 31 |")


def test_curves_that_are_not_compared_are_shares_of_their_own_beginning():
    head, _, plain, other = curve_lines([curve(compared=False)])[2:]
    assert head.endswith("| ÷ first | seconds |")
    assert plain.endswith("| 0.200 | 31 |")  # 2 of 10
    assert other.endswith("| 0.111 | 31 |")  # 1 of 9


def test_gaps_are_shown_beside_openspiels():
    course = {"gaps": [1.0, 0.5], "openspiel_gaps": [1.0, 0.25, 0.0], "seconds": 1.25}
    assert gap_lines({"sheriff_cce": course}) == [
        "| iteration | sheriff, CCE | OpenSpiel's |",
        "| ---: | ---: | ---: |",
        "| 0 | 1.0000 | 1.0000 |",
        "| 1 | 0.5000 | 0.2500 |",
        "| 2 |  | 0.0000 |",
        "",
        "Seconds: sheriff, CCE 1.2.",
    ]


@pytest.mark.slow
def test_a_study_trains_every_condition_and_remembers(tmp_path, monkeypatch):
    """The real thing at its smallest: every condition of Kuhn poker, two iterations, and then nothing is left to do."""
    study = populations.STUDIES["kuhn"]
    tiny = ("iterations=2", "snapshot_every=1", "cold_start.steps=2", "cold_start.matches=20")
    small = study._replace(settings=(*study.settings, *tiny))
    monkeypatch.setitem(populations.STUDIES, "kuhn", small)
    first = populations.measure_study("kuhn", [0], 0, tmp_path)["curves"]
    measured = [condition["runs"][0] for condition in first[0]["conditions"]]
    for figures in measured:
        assert figures["iterations"] == [0, 1, 2]
        assert all(0.0 < value < 1.0 for name in small.figures for value in figures[name])
    monkeypatch.setattr(session, "train", None)
    assert populations.measure_study("kuhn", [0], 0, tmp_path)["curves"] == first


def test_speeds_of_the_store_are_measured_on_the_real_command(tmp_path):
    figures = measure(players=5, matches=40, repeats=1, folder=tmp_path)
    assert {"add", "bytes_per_match", "cells_and_pairs", "standings", "draw"} <= set(figures)
    assert all(0.0 < values["min"] <= values["median"] <= values["max"] for values in figures.values())
