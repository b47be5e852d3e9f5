"""What a run writes for people: it changes nothing of the run, and planted breaks are seen at once."""

import json
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest
from support.processes.runs import TINY, contents
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from games.registry import make_game
from league.config import RunConfig
from league.config.load import load
from league.population.results.ratings import Ratings
from league.training.board.board import Board
from league.training.board.comparison import Comparison, _compared, spread
from league.training.board.descriptions import description
from league.training.board.figures.canvas import pixels
from league.training.board.metrics_log import figures_of, read_metrics
from league.training.board.observer import FigureData
from league.training.board.observers import figures, pinned_figures
from league.training.loop.session import resume, train
from league.training.monitors.alarms import Alarm

KUHN = make_game("kuhn_poker").spec


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """Return the folders of one run with all figures, and of the same without any, by their share of time."""
    folder = tmp_path_factory.mktemp("boards")
    config = folder / "config.toml"
    config.write_text(TINY)
    return {
        share: train(load(str(config), [f"board.time={share}"]), folder / f"run-{share}").run_dir for share in (0, 1)
    }


def test_drawing_changes_nothing_of_a_run_bit_for_bit(boards):
    without, drawn = (contents(boards[share]) for share in (0, 1))
    settings = [files.pop("config.toml") for files in (without, drawn)]
    assert settings[0] != settings[1]
    assert without.keys() == drawn.keys()
    assert [name for name in without if without[name] != drawn[name]] == []


def steps(run_dir, tag):
    events = EventAccumulator(str(run_dir / "tb"))
    events.Reload()
    return [event.step for event in events.Images(tag)]


def test_figures_come_while_the_run_trains_and_go_on_after_a_stop(tmp_path):
    """The run waits here for its own board, which is drawn in another process, and stops after iteration 3."""
    (tmp_path / "config.toml").write_text(TINY)
    seen = {}

    def watch(iteration, _):
        deadline = time.monotonic() + 120.0
        while not figures_of(tmp_path / "run") and time.monotonic() < deadline:
            time.sleep(0.05)
        seen[iteration] = figures_of(tmp_path / "run")
        return iteration == 3

    run = train(load(str(tmp_path / "config.toml"), ["board.time=1"]), tmp_path / "run", watch=watch)
    assert not run.finished
    assert seen[1], "figures of iteration 0 before the end of the second"
    assert steps(run.run_dir, "4_is_it_breaking/alarms") == [0, 2]
    assert resume(run.run_dir).finished
    assert steps(run.run_dir, "4_is_it_breaking/alarms") == [0, 2, 4, 6]


@pytest.mark.parametrize(("time", "share"), [(0.02, 0.05), (0.5, 0.05), (1, 1.0)])
def test_only_who_waits_for_all_figures_has_every_snapshot_drawn(monkeypatch, tmp_path, time, share):
    shares = []
    monkeypatch.setattr("league.training.board.board.Painter", lambda _, __, share: shares.append(share))
    context = SimpleNamespace(config=RunConfig(games={"kuhn_poker": {}}, board={"time": time}), run_dir=tmp_path)
    Board(context, None, None)
    assert shares == [share]


def test_every_figure_is_drawn_and_the_opening_page_tells_the_story_in_order(boards):
    assert figures_of(boards[0]) == []
    names = figures_of(boards[1])
    assert pinned_figures(names) == [
        "4_is_it_breaking/alarms",
        "1_is_it_learning/learning",
        "2_what_does_it_do/strategy/kuhn_poker",
        "3_who_beats_whom/payoffs/kuhn_poker",
        "3_who_beats_whom/wins/kuhn_poker",
        "3_who_beats_whom/population",
        "5_what_to_change/credit/kuhn_poker",
        "5_what_to_change/time",
    ]
    events = EventAccumulator(str(boards[1] / "tb"))
    events.Reload()
    assert set(events.Tags()["images"]) == set(names)
    assert [event.step for event in events.Images("4_is_it_breaking/alarms")] == [0, 2, 4, 6]
    (share,) = events.Scalars("time/board_at_end")
    assert share.step == 6
    assert share.value > events.Scalars("time/board")[-1].value


def test_the_tabs_have_transcripts_distributions_settings_and_a_layout(boards):
    events = EventAccumulator(str(boards[1] / "tb"))
    events.Reload()
    tags = events.Tags()
    told = {f"transcripts/kuhn_poker/{why}" for why in ("first", "best", "worst")}
    assert told <= set(tags["tensors"])
    assert {"kuhn_poker/advantages/first", "kuhn_poker/advantages/second"} <= set(tags["histograms"])
    plugins = events.summary_metadata
    assert "custom_scalars__config__" in plugins
    assert "_hparams_/experiment" in plugins


def test_every_curve_of_a_run_has_a_description(boards):
    names = {name for line in read_metrics(boards[1]) for name in line} - {"iteration"}
    assert len(names) > 50
    assert [name for name in names if not description(name)] == []
    events = EventAccumulator(str(boards[1] / "tb"))
    events.Reload()
    told = events.summary_metadata["kuhn_poker/exploitability"].summary_description
    assert told == description("kuhn_poker/exploitability")
    assert "Nash" in told
    assert description("a_plugin/of/somebody") == ""


def test_no_chart_of_custom_scalars_is_empty_and_each_comes_with_its_first_curve(boards):
    [path] = (boards[1] / "tb").glob("events*")
    values = [value for event in EventFileLoader(str(path)).Load() for value in event.summary.value]
    written = [value.tensor.string_val[0] for value in values if value.tag == "custom_scalars__config__"]
    layouts = [Layout.FromString(one) for one in written]
    assert len(layouts) > 1, "a board that is open gets the later ones too"
    tags = {name for line in read_metrics(boards[1]) for name in line}
    charts = [chart for category in layouts[-1].category for chart in category.chart]
    for chart in charts:
        patterns = [*chart.multiline.tag, *(re.escape(series.value) for series in chart.margin.series)]
        assert any(re.match(pattern, tag) for pattern in patterns for tag in tags), chart.title
    titles = {chart.title for chart in charts}
    assert {"exploitability", "score against anchors", "share of time by phase"} <= titles
    assert not titles & {"the judge: agreement with the truth, position bias", "staleness, updates"}
    assert len([chart for category in layouts[0].category for chart in category.chart]) < len(charts)


def test_the_mixtures_over_time_are_kept(boards):
    lines = [json.loads(line) for line in (boards[1] / "mixtures.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [0, 2, 4, 6]
    for line in lines:
        assert all(sum(seat.values()) == pytest.approx(1.0) for seat in line["kuhn_poker"])


def rock_paper_scissors(margin):
    """Return three snapshots that beat each other in a circle, by so much of half the game's range, exactly."""
    wins = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]]) * margin * (KUHN.max_return - KUHN.min_return) / 2
    config = RunConfig(games={"kuhn_poker": {}})
    return _compared(config, KUHN, ("main-000010", "main-000020", "main-000030"), wins.astype(float), None)


def test_a_planted_cycle_is_found_and_one_within_the_margin_is_not():
    (win,) = rock_paper_scissors(0.3).wins()
    assert set(win.players) == {"main-000010", "main-000020", "main-000030"}
    assert win.margin == pytest.approx(0.3)
    assert rock_paper_scissors(0.01).wins() == []


def figure_data(alarms, comparison: Comparison):
    history = [
        {"iteration": i, **{f"alarms/{alarm.name}": float(i >= alarm.since) for alarm in alarms}} for i in range(9)
    ]
    return FigureData(
        8, {"kuhn_poker": KUHN}, history, [], alarms, {}, {"kuhn_poker": comparison}, [], [], set(), Ratings(), ()
    )


@pytest.mark.parametrize("name", ["collapse", "signal", "cycle"])
def test_a_planted_break_is_red_on_the_first_figure_of_the_opening_page(name):
    """Without an alarm there is no red on it."""
    first = pinned_figures(figures(figure_data([], rock_paper_scissors(0.0))))[0]
    assert first == "4_is_it_breaking/alarms"
    alarm = Alarm(name, "kuhn_poker/first", "it is planted.", 3)
    calm = figures(figure_data([], rock_paper_scissors(0.0)))[first]()
    ringing = figures(figure_data([alarm], rock_paper_scissors(0.3)))[first]()
    assert not _red(calm)
    assert _red(ringing) > 1000  # pixels: a bar from iteration 3 on, and its words


def test_the_edges_of_a_cycle_are_red():
    assert _red(figures(figure_data([], rock_paper_scissors(0.3)))["3_who_beats_whom/wins/kuhn_poker"]()) > 300
    assert not _red(figures(figure_data([], rock_paper_scissors(0.0)))["3_who_beats_whom/wins/kuhn_poker"]())


def verdict(comparison):
    """Return what the figure of wins says below the graph."""
    drawn = figures(figure_data([], comparison))["3_who_beats_whom/wins/kuhn_poker"]()
    return drawn().texts[-1].get_text().replace("\n", " ")


def ladder(players, unmet=()):
    """Return players each of whom beats all that come after, but for pairs that never met."""
    means = np.triu(np.full((players, players), 0.5), 1)
    means = means - means.T
    for a, b in unmet:
        means[a, b] = means[b, a] = np.nan
    config = RunConfig(games={"kuhn_poker": {}})
    names = [f"main-{number:06d}" for number in range(players)]
    return _compared(config, KUHN, names, means, np.full(means.shape, 0.01))


def test_the_figure_of_cycles_says_what_was_looked_at():
    assert verdict(ladder(3)) == "No cycle: all these players can be ranked."
    assert verdict(ladder(14)) == "No cycle was found. 14 players were compared, 7 of them are shown."
    unmet = [(0, 1), (1, 2)]
    told = "No cycle was found. 3 players were compared, 2 of 3 pairs never met."
    assert verdict(ladder(3, unmet)) == told
    assert verdict(ladder(3)._replace(left_out=9)).endswith("3 players were compared, 9 others were not.")


def test_the_figure_of_cycles_shows_the_clearest_and_names_slight_ones_too():
    circle = "main-10 beats main-20 beats main-30 beats main-10"
    assert verdict(rock_paper_scissors(0.3)) == f"Cycle: {circle}."
    assert verdict(rock_paper_scissors(0.01)) == (
        f"Only slight cycles: {circle}, by 1.0% of half the game's range or more."
    )
    assert verdict(rock_paper_scissors(1e-12)) == "No cycle: all these players can be ranked."


def test_a_cycle_among_players_that_were_not_in_the_first_seven_is_shown():
    """Ten rungs of a ladder, of which the last three beat each other in a circle, slightly."""
    compared, last = ladder(10), [7, 8, 9]
    means = compared.means.copy()
    for winner, loser in zip(last, [8, 9, 7], strict=True):
        means[winner, loser], means[loser, winner] = 0.04, -0.04
    config = RunConfig(games={"kuhn_poker": {}})
    circular = _compared(config, KUHN, compared.players, means, np.full(means.shape, 0.001))
    assert circular.cycles == []
    assert set(last) <= set(circular.shown())
    assert verdict(circular).startswith("Only slight cycles: main-7 beats main-8 beats main-9 beats main-7, by 2.0%")


def _red(figure):
    drawn = pixels(figure)
    red, green, blue = (drawn[..., channel].astype(int) for channel in range(3))
    return int(((red > 170) & (green < 90) & (blue < 90)).sum())


def test_players_are_spread_evenly_with_the_first_and_the_last():
    assert spread(3, 7) == [0, 1, 2]
    assert spread(101, 5) == [0, 25, 50, 75, 100]
    assert spread(5, 1) == [4]
    assert spread(5, 0) == []
