"""The families of observers and figures: what they add up to, what is kept for figures, and who names them."""

from types import SimpleNamespace

import pytest
from support.source import ROOT, imported

from games.registry import make_game
from league.population.results.ratings import Ratings
from league.training.board.figures.canvas import new_figure
from league.training.board.observer import Figure, FigureData, Observer
from league.training.board.observers import FIGURES, MONITORS, drawn_metrics, figures, observe, pinned_figures
from league.training.board.questions import CHANGE, layout

GAME = "kuhn_poker"
DATA = FigureData(3, {GAME: make_game(GAME).spec}, [{"iteration": 3}], [], [], {}, {}, [], [], set(), Ratings(), ())


@pytest.fixture
def alone(monkeypatch):
    """Leave the families without entries of their own."""
    for family in (MONITORS, FIGURES):
        for name in list(family):
            monkeypatch.delitem(family, name)


def test_metrics_are_the_sum_of_observers_and_those_of_snapshots_come_apart(alone, monkeypatch):
    record = SimpleNamespace(iteration=7)
    monkeypatch.setitem(MONITORS, "a", Observer(lambda record: {"a": float(record.iteration)}))
    monkeypatch.setitem(MONITORS, "b", Observer(lambda record: {"b": 1.0, "c": 2.0}))
    monkeypatch.setitem(MONITORS, "d", Observer(lambda record: {"d": 3.0}, of_snapshots=True))
    assert observe(record) == {"a": 7.0, "b": 1.0, "c": 2.0}
    assert observe(record, of_snapshots=True) == {"d": 3.0}


def test_a_figure_is_an_entry_and_nothing_else_has_to_know_it(alone, monkeypatch):
    of_game = Figure(
        lambda data, game: new_figure(game), question=CHANGE, games=lambda data: data.specs, metrics=(r".+/mine",)
    )
    monkeypatch.setitem(FIGURES, "mine", of_game)
    monkeypatch.setitem(FIGURES, "whole", Figure(lambda data, _: new_figure("run"), question=CHANGE, pinned=True))
    drawn = figures(DATA)
    assert list(drawn) == [f"{CHANGE}/mine/{GAME}", f"{CHANGE}/whole"]
    assert [draw().texts[0].get_text() for draw in drawn.values()] == [GAME, "run"]
    assert pinned_figures([*drawn, f"{CHANGE}/whole_other"]) == [f"{CHANGE}/whole"]
    is_drawn = drawn_metrics()
    assert [name for name in (f"{GAME}/mine", f"{GAME}/mine/first", "mine") if is_drawn(name)] == [f"{GAME}/mine"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        *((f"{GAME}/{name}", True) for name in ("exploitability", "mixture_exploitability", "welfare")),
        *((f"{GAME}/{name}", True) for name in ("score_against_random", "replies/first/legal", "belief/first/3")),
        *((name, True) for name in ("alarms/drift", "time/play", "seconds", "rating", "curriculum/active")),
        *((f"{GAME}/{name}", False) for name in ("return/first", "score/first", "belief/first", "information/first")),
        *((name, False) for name in ("main/loss", "gap", "illegal_rate", "tokens_per_second")),
    ],
)  # fmt: skip
def test_the_history_of_what_figures_name_is_kept_and_no_other(name, kept):
    assert drawn_metrics()(name) is kept


def test_an_observers_charts_are_in_the_tab_of_its_game_only_where_they_have_something():
    charts = MONITORS["beliefs"].charts
    asked, silent = (SimpleNamespace(config=SimpleNamespace(beliefs=SimpleNamespace(asked=a))) for a in (True, False))
    assert charts(silent, GAME) == {}
    tab = layout({GAME: []}, False, False, {GAME: charts(asked, GAME)})["2 What does it do?"]
    titles = list(tab)
    assert titles.index(f"{GAME}: belief in the truth") < titles.index(f"{GAME}: kinds of replies")
    assert f"{GAME}: belief in the truth" not in layout({GAME: []}, False, False)["2 What does it do?"]


def test_the_loop_names_no_observer_and_no_figure():
    """But for the conduct of roles, which the board's histograms show too."""
    room = "league.training.board.observers."
    files = [ROOT / "league/training/board/board.py", *(ROOT / "league/training/loop").glob("*.py")]
    entries = {path.stem for path in (ROOT / "league/training/board/observers").glob("*.py")} - {"__init__", "conduct"}
    found = {name.removeprefix(room) for file in files for name in imported(file) if name.startswith(room)}
    assert {name.partition(".")[0] for name in found} & entries == set()


@pytest.mark.parametrize("family", [MONITORS, FIGURES], ids=lambda family: family.family)
def test_every_entry_says_what_it_is(family):
    assert [name for name, entry in family.items() if not entry.sentence] == []
