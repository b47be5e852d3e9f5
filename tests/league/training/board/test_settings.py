"""HParams begins with what people compare runs by, and several runs with what they differ in."""

import json
import tomllib
from pathlib import Path

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from league.config.load import load, preset_names, to_toml
from league.training.board.server import HPARAMS, _differing, _with_pinned_cards
from league.training.board.settings import COLUMNS, compared_settings, flat, flat_settings, rank


@pytest.mark.parametrize("preset", preset_names())
def test_what_a_run_sets_itself_is_shown_first_and_the_display_never(preset):
    shown = compared_settings(load(preset))
    assert len(shown) == COLUMNS
    assert shown[0] == "seed"
    assert not [name for name in shown if name.startswith(("board.", "alarms.", "games.", "threads"))]


def test_the_order_is_that_of_comparisons_not_of_the_alphabet():
    names = ["alarms.warmup", "credit.rule", "optimizer.learning_rate", "objective.name", "model.layers", "seed"]
    assert sorted(names, key=rank) == [
        *("seed", "model.layers", "objective.name", "optimizer.learning_rate", "credit.rule", "alarms.warmup")
    ]


def test_settings_are_flat_by_dotted_names():
    assert dict(flat({"a": {"b": {"c": 1}, "d": [1, 2]}, "e": "x"})) == {"a.b.c": 1, "a.d": "[1, 2]", "e": "x"}
    assert flat_settings(load("pocket-returns"))["games.kuhn_poker.matches"] == 2048


def written(folder: Path, *settings: str) -> Path:
    folder.mkdir()
    (folder / "config.toml").write_text(to_toml(load("pocket-returns", list(settings))))
    assert tomllib.loads((folder / "config.toml").read_text())["games"]
    return folder


def test_of_several_runs_what_differs_leads_and_tensorboards_other_answers_stay(tmp_path):
    runs = [
        written(tmp_path / "a", "board.time=0"),
        written(tmp_path / "b", "optimizer.learning_rate=0.01", "objective.clip_low=0.5"),
    ]
    assert _differing(runs) == {"optimizer.learning_rate", "objective.clip_low"}
    names = ["alarms.warmup", "objective.clip_low", "credit.rule", "optimizer.learning_rate"]
    infos = [{"name": name, "differs": name == "credit.rule"} for name in names]

    def tensorboard(environ, start_response):
        body = json.dumps({"hparamInfos": infos, "metricInfos": [1]})
        return Response(body, content_type="application/json")(environ, start_response)

    client = Client(_with_pinned_cards(tensorboard, ["a", "b"], runs))
    answer = client.post(HPARAMS, json={}).json
    assert answer["metricInfos"] == [1]
    assert [(one["name"], one["differs"]) for one in answer["hparamInfos"]] == [
        ("optimizer.learning_rate", True),
        ("objective.clip_low", True),
        ("credit.rule", False),
        ("alarms.warmup", False),
    ]
    alone = Client(_with_pinned_cards(tensorboard, ["a"], runs[:1])).post(HPARAMS, json={}).json
    assert alone["hparamInfos"][0] == {"name": "credit.rule", "differs": True}
    assert client.get("/data/other").json["hparamInfos"] == infos
