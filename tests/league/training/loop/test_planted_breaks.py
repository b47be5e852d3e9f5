"""Runs with a planted break: an alarm names it, and the opening page of the board shows it, all from event files."""

import io
import re

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from league.config.load import load
from league.training.board.metrics_log import figures_of
from league.training.board.observers import pinned_figures
from league.training.loop.session import train

SMALL = """
threads = 1
board.time = 1.0  # every picture is drawn, however much else the machine does
model = { hidden_size = 32, layers = 1, intermediate_size = 32 }
cold_start = { steps = 5, matches = 8, batch_size = 32 }
evaluation.matches = 4
"""
COLLAPSE = """
# Steps so large, and no entropy, that one action is all that is left after the second.
iterations = 8
snapshot_every = 4
games.kuhn_poker = { matches = 64, entropy = 0.0 }
optimizer = { learning_rate = 0.1, inner_steps = 8 }
"""
STARVED = """
# The column's payoff is 0 whatever anybody does.
iterations = 8
snapshot_every = 4
games."nfg_game(filename=starved.nfg)".matches = 64
"""
PAYOFFS = 'NFG 1 R "starved" { "Row" "Column" } { 3 3 }\n\n1 0 0 0 2 0 2 0 1 0 0 0 0 0 2 0 1 0\n'
CYCLE = """
# Self-play alone in rock, paper, scissors answers its last snapshot, and is answered by the next.
iterations = 16
snapshot_every = 2
games.matrix_rps = { matches = 128, entropy = 0.05 }
matchmaking = { self_play = 1.0, fictitious = 0.0 }
optimizer = { learning_rate = 0.01, inner_steps = 4 }
"""
BREAKS = {"collapse": COLLAPSE, "signal": STARVED, "cycle": CYCLE}


@pytest.fixture(scope="module", params=BREAKS)
def broken(request, tmp_path_factory):
    """Return the name of an alarm, the folder of a run in which its break is planted, and the run's events."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "starved.nfg").write_text(PAYOFFS)
    (folder / "config.toml").write_text(BREAKS[request.param] + SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # where the game's file is found
        run = train(load("config.toml", []), folder / "run").run_dir
    events = EventAccumulator(str(run / "tb"))
    events.Reload()
    return request.param, run, events


def picture(events, name):
    """Return the last picture of a figure, [height, width, 3]."""
    return np.asarray(Image.open(io.BytesIO(events.Images(name)[-1].encoded_image_string)).convert("RGB"), dtype=int)


def red(pixels):
    """Return the number of pixels in the colour of alarms."""
    return int(((pixels[..., 0] > 170) & (pixels[..., 1] < 90) & (pixels[..., 2] < 90)).sum())


@pytest.mark.thorough  # each trains
def test_an_alarm_names_the_break_and_the_first_figure_is_red(broken):
    name, run, events = broken
    assert events.Scalars(f"alarms/{name}")[-1].value == 1.0
    words = [
        event.tensor_proto.string_val[0].decode()
        for tag in events.Tags()["tensors"]
        if tag.startswith(f"alarms/{name}/")
        for event in events.Tensors(tag)
    ]
    said = {
        "collapse": "of the turns where it could choose",
        "signal": "have an advantage",
        "cycle": "its results are cyclic",
    }
    assert any(said[name] in " ".join(text.split()) for text in words)
    first = pinned_figures(figures_of(run))[0]
    assert first == "4_is_it_breaking/alarms"
    assert red(picture(events, first)) > 1000


@pytest.mark.thorough
def test_no_other_of_these_alarms_rings(broken):
    name, _, events = broken
    ringing = {other for other in BREAKS if any(event.value for event in _scalars(events, f"alarms/{other}"))}
    assert ringing == {name}


def _scalars(events, name):
    return events.Scalars(name) if name in events.Tags()["scalars"] else []


@pytest.mark.thorough
def test_the_break_is_visible_on_the_opening_page_beside_its_alarm(broken):
    """A collapse as probabilities at the border, a starved role as a spread of none, a cycle as red edges."""
    name, run, events = broken
    if name == "collapse":
        played = [tag for tag in events.Tags()["scalars"] if tag.startswith("kuhn_poker/strategy/")]
        assert all(min(value, 1 - value) < 0.02 for tag in played for value in [events.Scalars(tag)[-1].value])
        assert "2_what_does_it_do/strategy/kuhn_poker" in pinned_figures(figures_of(run))
    elif name == "signal":
        tags = [tag for tag in events.Tags()["scalars"] if re.fullmatch(r".+/advantage/[^/]+/spread", tag)]
        spreads = {tag: events.Scalars(tag)[-1].value for tag in tags}
        assert sorted(value > 0.05 for value in spreads.values()) == [False, True]
        assert min(spreads.values()) == 0.0
        assert any("/credit/" in figure for figure in pinned_figures(figures_of(run)))
    else:
        assert red(picture(events, "3_who_beats_whom/wins/matrix_rps")) > 300
