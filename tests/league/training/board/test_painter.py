"""Figures are drawn beside the run: all of them, in order, the same as here, and whatever happens to who draws them."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.source import ROOT

from league.training.board.figures.canvas import pixels
from league.training.board.figures.charts import Curve, draw_curves
from league.training.board.painter import MOST_WAITING, Painter
from league.training.board.painting import Order, paint

PATIENCE = 120.0  # seconds: much more than is needed


class Gallery:
    """A painter, with what it delivers and says. Use as a context manager."""

    def __init__(self, share=1.0):
        self.pictures, self.told = [], []
        self.painter = Painter(self.pictures.append, self.told.append, share)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.painter.close()
        assert self.painter._process is None or self.painter._process.wait(10) is not None

    def drawn(self):
        return [(picture.iteration, picture.name) for picture in self.pictures]

    def until(self, number):
        """Wait until this many figures are drawn."""
        deadline = time.monotonic() + PATIENCE
        while len(self.pictures) < number:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def curve(last):
    return partial(draw_curves, "a title", {"panel": [Curve("c", [0, 1], [0.0, last])]})


def given(**drawings):
    return {name: (lambda drawing=drawing: drawing) for name, drawing in drawings.items()}


def test_every_snapshot_is_drawn_in_order_with_its_own_data_and_as_it_would_be_here():
    with Gallery() as gallery:
        for iteration in range(3):
            gallery.painter.draw(iteration, given(a=curve(iteration), b=curve(-iteration)))
        gallery.painter.finish(PATIENCE)
        assert gallery.drawn() == [(i, name) for i in range(3) for name in "ab"]
        for picture in gallery.pictures:
            sign = 1 if picture.name == "a" else -1
            drawn = np.asarray(Image.open(io.BytesIO(picture.png)))
            assert np.array_equal(drawn, pixels(curve(sign * picture.iteration)))
    assert gallery.told == []


def test_within_a_share_of_the_time_each_figures_first_and_newest_data_are_drawn():
    with Gallery(share=1e-6) as gallery:
        gallery.painter.draw(0, given(a=curve(0), b=curve(0)))
        gallery.until(2)
        for iteration in range(1, 4):
            only_once = given(seldom=curve(7)) if iteration == 2 else {}
            gallery.painter.draw(iteration, given(a=curve(iteration), b=curve(0)) | only_once)
            time.sleep(0.4)  # several times what a figure takes
        assert gallery.drawn() == [(0, "a"), (0, "b")]
        gallery.painter.finish(PATIENCE)
        assert gallery.drawn() == [(0, "a"), (0, "b"), (3, "a"), (3, "b"), (2, "seldom")]
        for picture, last in zip(gallery.pictures, (0, 0, 3, 0, 7), strict=True):
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(picture.png))), pixels(curve(last)))


def test_drawing_goes_on_after_a_pause_without_another_order():
    with Gallery(share=0.2) as gallery:
        gallery.painter.draw(0, given(a=curve(0)))
        gallery.until(1)
        gallery.painter.draw(1, given(a=curve(1)))
        gallery.until(2)
        assert gallery.drawn() == [(0, "a"), (1, "a")]


def test_data_that_change_after_the_order_change_no_figure():
    curves = [Curve("c", [0, 1], [0.0, 1.0])]
    with Gallery() as gallery:
        gallery.painter.draw(0, given(a=partial(draw_curves, "a title", {"panel": curves})))
        curves[0] = Curve("c", [0, 1], [9.0, 9.0])
        gallery.painter.finish(PATIENCE)
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(gallery.pictures[0].png))), pixels(curve(1.0)))


def test_a_painter_that_is_killed_is_replaced_and_ctrl_c_is_none_of_its_business():
    with Gallery() as gallery:
        gallery.painter.draw(0, given(a=curve(0)))
        gallery.until(1)
        process = gallery.painter._process
        process.send_signal(signal.SIGINT)
        gallery.painter.draw(1, given(a=curve(1)))
        gallery.until(2)
        assert gallery.painter._process is process
        process.kill()
        gallery.painter.draw(2, given(a=curve(2), b=curve(2)))
        gallery.painter.finish(PATIENCE)
        assert gallery.drawn() == [(0, "a"), (1, "a"), (2, "a"), (2, "b")]
        assert gallery.painter._process is not process
    assert gallery.told == []


def test_a_figure_that_fails_or_ends_the_process_costs_itself_alone_and_is_told_once():
    def wrong():
        raise ValueError("no data")

    with Gallery() as gallery:
        for iteration in range(3):
            broken = given(a=partial(float, "words"), b=partial(os._exit, 3), c=curve(iteration))
            gallery.painter.draw(iteration, {"w": wrong, **broken})
        gallery.painter.finish(PATIENCE)
        assert gallery.drawn() == [(0, "c"), (1, "c"), (2, "c")]
    ending = "The run continues, and its curves are complete."
    assert sorted(gallery.told) == [
        f"The figure a is not drawn (ValueError: could not convert string to float: 'words'). {ending}",
        f"The figure b is not drawn (it crashes the process that draws it). {ending}",
        f"The figure w is not drawn (ValueError: no data). {ending}",
    ]


def test_a_process_that_always_ends_is_given_up_with_a_sentence(monkeypatch):
    monkeypatch.setattr("league.training.board.painter._PROGRAM", "raise SystemExit(1)")
    with Gallery() as gallery:
        for iteration in range(20):
            gallery.painter.draw(iteration, given(**{f"figure_{iteration}": curve(0)}))
        gallery.painter.finish(PATIENCE)
    assert gallery.drawn() == []
    assert gallery.told[-1].startswith("Figures are no longer drawn (the process that draws them ended 8 times).")


def test_what_only_this_process_knows_is_drawn_here():
    threads = []

    def of_this_test():
        threads.append(threading.current_thread())
        return curve(1.0)()

    with Gallery() as gallery:
        gallery.painter.draw(0, given(a=of_this_test))
        gallery.painter.finish(PATIENCE)
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(gallery.pictures[0].png))), pixels(curve(1.0)))
    assert threads == [threading.main_thread()]


def test_a_figure_that_never_ends_holds_nobody_up():
    with Gallery() as gallery:
        gallery.painter.draw(0, given(a=partial(time.sleep, 10_000)))
        for iteration in range(1, 4 * MOST_WAITING):
            gallery.painter.draw(iteration, given(a=curve(iteration)))
        assert len(gallery.painter._waiting) <= MOST_WAITING
        assert gallery.painter._waiting[-1][0].iteration == 4 * MOST_WAITING - 1
        started_at = time.monotonic()
        gallery.painter.finish(0.2)
        assert 0.3 < time.monotonic() - started_at < 30.0
    assert gallery.drawn() == []


def test_of_more_than_there_is_time_for_evenly_spaced_snapshots_are_drawn_and_the_last(monkeypatch):
    """Of a second at a second each the last alone, and of two the first too."""
    with Gallery() as gallery:
        gallery.painter._seconds = 1.0
        gallery.painter._deadline = time.monotonic() + 1.5
        gallery.painter._waiting = [[Order("a", iteration, b"")] for iteration in range(9)]
        assert gallery.painter._next()[0].iteration == 0
        assert [orders[0].iteration for orders in gallery.painter._waiting] == [8]
        gallery.painter._waiting = [[Order("a", iteration, b"")] for iteration in range(9)]
        gallery.painter._deadline = time.monotonic()
        assert gallery.painter._next()[0].iteration == 8
        assert gallery.painter._waiting == []


SCRIPT = """
import os, sys, time
from functools import partial
from league.training.board.painter import Painter
painter = Painter(lambda picture: None, print)
painter.draw(0, {"a": lambda: partial(time.sleep, 0.5)})
while painter._process is None:
    time.sleep(0.01)
if os.fork() == 0:  # a child that outlives this process, and holds its pipes
    time.sleep(60)
    os._exit(0)
print(painter._process.pid, flush=True)
time.sleep(60)
"""


def test_the_painter_ends_with_a_run_that_is_killed():
    run = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    try:
        painter = int(run.stdout.readline())
        run.kill()
        run.wait()
        deadline = time.monotonic() + PATIENCE
        while is_alive(painter):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        os.killpg(run.pid, signal.SIGKILL)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_who_draws_needs_neither_torch_nor_the_run():
    """It starts in a second, and takes a fraction of a run's memory."""
    rooms = "import sys, pkgutil, importlib, league.training.board.figures as f, league.training.board.painting\n"
    every = "[importlib.import_module(f'{f.__name__}.{m.name}') for m in pkgutil.iter_modules(f.__path__)]\n"
    heavy = (
        "print([m for m in ('torch', 'transformers', 'pydantic', 'scipy', 'games', 'learners') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", rooms + every + heavy], capture_output=True, text=True, cwd=ROOT)
    assert told.stdout.strip() == "[]", told.stderr


@pytest.mark.parametrize("wrong", [b"", b"not a pickle"])
def test_a_damaged_order_is_answered_with_a_reason(wrong):
    assert paint(Order("a", 0, wrong)).error
