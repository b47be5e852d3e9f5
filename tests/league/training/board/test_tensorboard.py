"""TensorBoard itself in a real browser, on a finished run: what is named is there, and the console stays silent."""

import json
import pickle
import subprocess
import sys
import time

import pytest
from support.browser import NARROW, PATIENCE, WIDE, screenshot
from support.processes.runs import TINY, league_train
from support.source import ROOT

from league.training.board.figures.canvas import new_figure, pixels
from league.training.board.metrics_log import MetricsLog
from league.training.board.observers import pinned_figures
from league.training.board.painting import Order, paint
from league.training.board.server import serve_tensorboard

STORED = ROOT / "tests/data/pocket-league"  # see docs/reading_the_board.md
FIGURES = pinned_figures(json.loads((STORED / "tb/figures.json").read_text()))


@pytest.fixture(scope="module")
def address():
    return serve_tensorboard([STORED], 0)


def pinned_titles(page, figures):
    """Return the titles of the pinned cards. The first ones are figures, which load once they are in the window."""
    cards = page.locator("metrics-pinned-view card-view")
    for number in range(figures):
        cards.nth(number).scroll_into_view_if_needed()
        picture = cards.nth(number).locator("img").first
        picture.wait_for()
        picture.evaluate("image => image.decode()")
    cards.first.scroll_into_view_if_needed()
    return ["".join(card.inner_text().split()) for card in cards.all()]


@pytest.mark.parametrize("width", [WIDE, pytest.param(NARROW, marks=pytest.mark.slow)])
def test_the_opening_page_tells_the_story_in_order(browser, address, width, tmp_path):
    with browser.open(address, width=width) as page:
        assert len(FIGURES) == 8
        titles = pinned_titles(page, len(FIGURES))
        assert all(title.startswith(figure) for title, figure in zip(titles, FIGURES, strict=False))
        assert screenshot(page, tmp_path / "board.png").stat().st_size > 50_000


def open_tab(page, name):
    """Open a tab by its hash: at some widths a list of TensorBoard's own covers the last tabs."""
    page.evaluate(f"location.hash = '#{name}'")


def drawn(name, iteration):
    return paint(Order(name, iteration, pickle.dumps(pixels(new_figure(name)))))


def test_a_page_that_was_opened_before_there_were_figures_pins_them_when_they_come(browser, tmp_path):
    """TensorBoard asks again by itself every half minute; here a click makes it."""
    (tmp_path / "config.toml").write_text("[games.kuhn_poker]\nmatches = 4\n")
    with MetricsLog(tmp_path) as log:
        log.write(0, {"kuhn_poker/exploitability": 0.5})
        with browser.open(serve_tensorboard([tmp_path], 0)) as page:
            settings = json.loads(page.evaluate("localStorage.getItem('_tb_global_settings')"))
            assert settings["autoReload"] is True
            cards = page.locator("metrics-pinned-view card-view")
            cards.first.wait_for()
            assert ["".join(card.inner_text().split())[:25] for card in cards.all()] == ["kuhn_poker/exploitability"]
            for name in ("4_is_it_breaking/alarms", "3_who_beats_whom/payoffs/kuhn_poker", "not/pinned"):
                log.figure(drawn(name, 0))
            log.write(1, {"kuhn_poker/exploitability": 0.4, "rating": 25.0})
            deadline = time.monotonic() + PATIENCE / 1000
            while cards.count() < 4:
                assert time.monotonic() < deadline
                page.locator("app-header-reload button").click()
                page.wait_for_timeout(1000)
            titles = "".join("".join(card.inner_text().split()) for card in cards.all())
            assert all(name in titles for name in ("4_is_it_breaking/alarms", "payoffs/kuhn_poker", "rating"))


@pytest.mark.slow  # each tab loads a part of TensorBoard
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_tab_has_what_the_page_of_questions_names(browser, address, width, tmp_path):
    with browser.open(address, width=width) as page:
        page.set_default_timeout(3 * PATIENCE)  # on a busy machine a tab takes more than a minute
        pinned_titles(page, 1)
        shown = {
            "images": ["1_is_it_learning/learning"],
            "text": [f"transcripts/kuhn_poker/{why}" for why in ("first", "best", "worst", "most_surprising")],
            "custom_scalars": [
                "1 Is it learning?",
                "kuhn_poker/strategy/first/jack_bets/bet",
                "share of time by phase",
            ],
            "hparams": ["exploiters.freeze_after", "pocket-league/."],
            "histograms": ["kuhn_poker/advantages/first"],
        }
        for tab, names in shown.items():
            open_tab(page, tab)
            for name in names:
                page.get_by_text(name, exact=True).locator("visible=true").first.wait_for()
            if tab == "images":
                opened = {
                    "2_what_does_it_do": "strategy/kuhn_poker",
                    "3_who_beats_whom": "population",
                    "5_what_to_change": "time",
                }
                for group, name in opened.items():
                    title = page.get_by_text(f"{group}/{name}", exact=True)
                    if not title.locator("visible=true").count():
                        page.locator("button.heading", has_text=group).click()
                    title.locator("visible=true").first.wait_for()
            screenshot(page, tmp_path / f"{tab}.png", whole=False)


@pytest.mark.slow  # trains, and starts TensorBoard in its own process
def test_league_board_opens_a_run_that_has_just_ended(browser, tmp_path):
    """However short it was: the figures of its last iteration are drawn."""
    (tmp_path / "tiny.toml").write_text(TINY)
    ended = league_train(tmp_path / "tiny.toml", run_dir=tmp_path / "run")
    assert ended.status == 0, ended.output
    command = [sys.executable, "-m", "league", "board", str(tmp_path / "run"), "--port", "0"]
    board = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = board.stdout.readline().split()[-1]
        with browser.open(address) as page:
            assert any(title.startswith("3_who_beats_whom/payoffs") for title in pinned_titles(page, 8))
            assert page.locator("metrics-pinned-view").get_by_text("exploitability").count()
    finally:
        board.terminate()
        board.wait()
