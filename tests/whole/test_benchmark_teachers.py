"""Studies of teachers: what their conditions differ in, and the real thing at its smallest."""

from pathlib import Path

import pytest

from benchmarks.studies.teachers import distilled, sighted


def test_conditions_differ_in_the_teacher_alone():
    for lesson in distilled.LESSONS.values():
        by_name = distilled.configs_of(lesson, "equilibrium", Path("matches.jsonl"))
        configs = {name.rpartition(": ")[2]: config for name, config in by_name.items()}
        assert [config.objective.distill for config in configs.values()] == [0.0] + [1.0] * (len(configs) - 1)
        assert [config.imitation.weight for config in configs.values()] == [1.0] + [0.0] * (len(configs) - 1)
        assert {name: configs[name].teacher.divergence for name in lesson.conditions[1:]} == {
            name: name for name in lesson.conditions[1:]
        }
        for config in configs.values():
            changed = {"objective": None, "imitation": None, "teacher": None}
            assert config.model_copy(update=changed) == configs["reverse"].model_copy(update=changed)
    for game in sighted.GAMES.values():
        by_name = sighted.configs_of(game)
        assert [config.objective.distill for config in by_name.values()] == [0.0, 1.0, 1.0]
        assert {config.teacher.sees for config in by_name.values()} == {("hidden",)}
        assert {tuple(config.games) for config in by_name.values()} == {(game, f"informed({game})")}


def test_the_kl_is_to_the_teacher_with_a_share_of_uniform_play():
    assert distilled._kl((0.995, 0.005), (1.0, 0.0)) == pytest.approx(0.0, abs=1e-12)
    assert distilled._kl((0.0, 1.0), (1.0, 0.0)) == pytest.approx(5.298317, abs=1e-6)  # log 200


@pytest.mark.thorough
def test_a_study_at_its_smallest(tmp_path, monkeypatch):
    lesson = distilled.LESSONS["taught-kuhn"]._replace(iterations=2, matches=8, conditions=("imitation", "reverse"))
    monkeypatch.setitem(distilled.LESSONS, "taught-kuhn", lesson)
    [table] = distilled.measure_study("taught-kuhn", [0], 0, tmp_path / "taught")["tables"]
    imitation, reverse = (condition["runs"][0] for condition in table["conditions"])
    assert imitation["of_teacher"] == reverse["of_teacher"] < 0.001
    assert imitation["kl"] != reverse["kl"]
    assert len(reverse["states"]) == 12
    monkeypatch.setitem(sighted.ITERATIONS, "kuhn_poker", 2)
    monkeypatch.setattr(sighted, "MATCHES", 8)
    [table] = sighted.measure_study("sighted-kuhn", [0], 0, tmp_path / "sighted")["tables"]
    none, taught, _ = (condition["runs"][0] for condition in table["conditions"])
    assert 0.0 < taught["bluffs"] < 1.0
    assert none["figure"] != taught["figure"]
