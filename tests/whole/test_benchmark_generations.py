"""The study of generations: equally many matches, thirds of a lifetime, and what a figure is the mean of."""

from types import SimpleNamespace

import pytest

from benchmarks.studies.self_play import generations as study
from benchmarks.studies.self_play.curriculum import summary
from league.training.snapshots.judged_games import most_matches


def test_one_lifetime_has_as_many_matches_as_the_generations_to_within_an_iteration():
    """Six steps of two members, of five iterations of 256 matches each; a run judges eight games at seven snapshots.

    The gate compares the two members of each step, and its best with the elite: eleven pairs. Two members are distilled
    twice, from 64 matches and 16 held out in each of four games without a table.
    """
    config = study.bred_settings()
    training, judging = 2 * 30 * 256, 2 * 7 * 8 * 3 * 8
    gate, distilled = 11 * 8 * 24, 2 * 2 * 4 * (64 + 16)
    assert study.matches_of(config) == training + judging + gate + distilled
    alone = most_matches(study.lifetime(config))
    assert 0 <= study.matches_of(config) - alone < 256 + 8 * 3 * 8


def test_between_generations_is_distilled_and_within_them_bred():
    from league.lab.breeding.breeding import rule_of

    rules = [rule_of(study.bred_settings().descent, generation) for generation in range(1, 6)]
    assert rules == ["mutate", "distil", "mutate", "distil", "mutate"]


def test_the_figure_is_the_mean_of_five_percentiles_over_games():
    """Of 0, 0.1, ... 1 the p-th percentile is p / 100."""
    figures = summary({str(number): number / 10 for number in range(11)})
    assert [figures[f"percentile_{p}"] for p in (10, 20, 30, 40, 50)] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert (figures["figure"], figures["mean"]) == (pytest.approx(0.3), pytest.approx(0.5))


def test_a_lifetime_is_read_at_the_snapshots_nearest_to_its_thirds(monkeypatch, tmp_path):
    steps = [0, 5, 10, 15, 16]
    run = SimpleNamespace(
        iterations=lambda: [{"iteration": step} for step in range(1, 17)],
        snapshots=lambda _: [SimpleNamespace(step=step, id=f"main-{step:06d}") for step in steps],
        config=SimpleNamespace(seed=3),
    )
    monkeypatch.setattr(study, "open_run", lambda _: run)
    monkeypatch.setattr(study, "shares", lambda _, line, player, seed: {"line": line["iteration"], "who": player})
    after = study.measure_lifetime(tmp_path)["after"]
    assert [worth["line"] for worth in after] == [5, 10, 16]
    assert [worth["who"] for worth in after] == [f"{tmp_path}@main-{step:06d}" for step in (5, 10, 16)]


def test_a_row_is_of_the_last_generation_and_says_what_the_others_were_worth():
    row = study.row([{"a": 0.0, "b": 0.2}, {"a": 0.2, "b": 0.4}, {"a": 0.4, "b": 0.6}], 100)
    assert (row["after_1"], row["after_2"], row["figure"]) == pytest.approx((0.06, 0.26, 0.46))
    assert (row["mean"], row["worth"], row["matches"]) == (pytest.approx(0.5), {"a": 0.4, "b": 0.6}, 100)
    assert "elite" not in row
    assert study.row([{"a": 0.0}, {"a": 0.2}, {"a": 0.4}, {"a": 0.3}], 100)["elite"] == pytest.approx(0.3)


def test_a_generation_is_worth_what_its_best_member_is(monkeypatch, tmp_path):
    """Two steps make a generation; the elite may be an older one, where no other passed the gate."""
    history = [{"ranking": [f"g{step}/m1", f"g{step}/m0"], "elite": {"run": "g1/m1"}} for step in range(6)]
    run = SimpleNamespace(iterations=lambda: [{"iteration": 5}])
    monkeypatch.setattr(study, "breed", lambda *_: SimpleNamespace(record=lambda: {"history": history}))
    monkeypatch.setattr(study, "open_run", lambda _: run)
    monkeypatch.setattr(study, "shares", lambda folder, *_: str(folder.relative_to(tmp_path)))
    assert study.bred(study.bred_settings(), tmp_path) == ["g1/m1", "g3/m1", "g5/m1", "g1/m1"]
