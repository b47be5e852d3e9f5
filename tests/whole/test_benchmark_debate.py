"""The study of debates: a condition for each number of rounds, and what scripted judges and debaters come to."""

import pytest
import tomli_w

from benchmarks.report.comparison import comparison_lines
from benchmarks.studies.language import debate
from games.registry import make_game
from league.config import load as settings

MATCHES = 300
ERROR = 4 * 0.5 / MATCHES**0.5


def test_there_are_none_one_and_two_debaters_who_speak_once_to_three_times(tmp_path):
    """Turns are speeches and a verdict; the judge has a policy of its own."""
    turns = {name: make_game(game).spec.max_turns - 1 for name, game in debate.GAMES.items()}
    assert list(turns.values()) == [0, 1, 2, 3, 2, 4, 6]
    for name, game in debate.GAMES.items():
        (tmp_path / "debate.toml").write_text(tomli_w.dumps(debate.settings_of(game)))
        config = settings.load(str(tmp_path / "debate.toml"), [])
        *debaters, judge = config.roles.policy.values()
        assert judge == "judge", name
        assert debaters == ["main"] * (make_game(game).spec.seats - 1)


@pytest.mark.parametrize(
    ("condition", "judge", "debaters", "right", "shown", "believed"),
    [
        ("alone", "scripted:good", "", 1 / 4, 0.0, 0.0),
        ("one debater", "scripted:good", "", 2 / 3, 1 / 2, 1.0),
        ("one debater, 2 rounds", "scripted:good", "", 3 / 4, 1 / 2, 1.0),
        ("two debaters", "scripted:good", "", 1.0, 1.0, 1.0),
        ("two debaters", "random", "scripted:good", 1 / 4, 1.0, 1 / 4),
        ("two debaters", "scripted:good", "random", 1 - (3 / 5) ** 2 / 2, 1 - (4 / 5) ** 2, 1.0),
        ("two debaters, 3 rounds", "scripted:good", "random", 1 - (3 / 5) ** 6 / 2, 1 - (4 / 5) ** 6, 1.0),
    ],
)
def test_what_scripted_judges_find_out(condition, judge, debaters, right, shown, believed, monkeypatch):
    """Of four boxes debaters by lot open one or nothing, five choices, of which two tell the judge the truth."""
    monkeypatch.setattr(debate, "HELD_OUT", MATCHES)
    found = debate.judged(debate.GAMES[condition], judge, debaters)
    for share, expected in zip(found, (right, shown, believed), strict=True):
        assert share == pytest.approx(expected, abs=ERROR if 0 < expected < 1 else 0)


def test_figures_become_a_table_of_conditions(tmp_path, monkeypatch):
    asked = []

    def measure_runs(configs, seeds, *_how):
        asked.extend(configs)
        alone = {"figure": 0.25, "untrained": 0.25}
        full = {"figure": 0.5, "untrained": 0.25, "untrained_debaters": 0.3, "shown": 0.6, "believed": 0.7}
        return {(name, seed): alone if name == "alone" else full for name in configs for seed in seeds}

    monkeypatch.setattr(debate, "measure_runs", measure_runs)
    result = debate.measure_study("debate", [101, 102], 1, tmp_path)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz_0123456789") for name in asked)
    lines = comparison_lines(result["tables"])
    assert [line.split(" | ")[0][2:] for line in lines[-7:]] == list(debate.GAMES)
    assert lines[-1].endswith("| 0.30 | 0.25 | 0.60 | 0.70 |")
