"""``league credit``: its JSON, its words, its picture, and what it refuses."""

import json

import pytest

from league.cli.dispatch import main

SMALL = ["--batch", "64", "--batches", "3"]
FIELDS = {"rule", "given_values", "cosine", "cosine_low", "cosine_high", "bias", "bias_low", "bias_high", "noise"}


def test_a_game_is_measured_under_uniform_play_and_told_in_json(capsys, tmp_path):
    picture = tmp_path / "credit.svg"
    command = ["credit", "kuhn_poker", *SMALL, "--rules", "rae", "cory", "--json", "-o", str(picture)]
    assert main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["game"] == "kuhn_poker"
    assert report["reference"] == "exact"
    assert [rule["rule"] for rule in report["rules"]] == ["exact", "rae", "cory"]
    exact, rae, cory = report["rules"]
    assert {
        *FIELDS,
        "wrong_sign",
        "matches_needed",
        "matches_for_sign",
        "fidelity",
        "variance",
        "roles",
        "turns",
    } == set(exact)
    assert exact["wrong_sign"] == 0.0
    assert exact["fidelity"] == pytest.approx(1.0)
    assert rae["variance"] > exact["variance"] == pytest.approx(0.0, abs=1e-12)
    assert set(report["influence"]) == {"first", "second"}
    assert all(nats == 0.0 for nats in report["influence"].values()), "uniform play heeds nobody"
    assert rae["cosine_low"] <= rae["cosine"] <= rae["cosine_high"]
    assert set(rae["roles"]) == {"first", "second"}
    assert [turn["turn"] for turn in rae["turns"]] == [1, 2]
    assert cory["cosine"] is None  # both seats together earn nothing in a zero-sum game
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == report


def test_a_runs_snapshot_is_measured_with_the_runs_settings(run_dir, capsys):
    assert main(["credit", f"{run_dir}@main-000010", *SMALL, "--rules", "rae", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["player"] == f"{run_dir}@main-000010"
    assert report["exact_policy"]
    assert main(["credit", str(run_dir), *SMALL]) == 0
    text = capsys.readouterr().out
    assert "Nearest to the truth:" in text
    assert "malt is left out: it compares sibling replies" in text
    assert "which a critic would have to learn first: gae_turn" in text


def test_a_game_that_cannot_be_enumerated_is_played_on_from_its_turns(capsys):
    assert main(["credit", "lookup_alone", "--batch", "24", "--batches", "1", "--rules", "mars", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["reference"] == "continuations"
    assert all(rule["cosine_low"] < rule["cosine"] < rule["cosine_high"] for rule in report["rules"])
    assert report["rules"][1]["bias"] is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nosuch"], "Nor is there such a run"),
        (["kuhn_poker", "-o", "picture.pdf"], "a picture is a .png or .svg file"),
        (["kuhn_poker", "--batch", "12"], "--batch 12 is not a multiple of --group 8"),
        (["kuhn_poker", "--rules", "malt"], "whole trees"),
    ],
)
def test_mistakes_are_told_in_a_sentence(words, told, capsys):
    assert main(["credit", *words]) == 2
    assert told in capsys.readouterr().err
