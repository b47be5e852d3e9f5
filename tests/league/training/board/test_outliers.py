"""TensorBoard as `league board` opens it, in a real browser: a curve's first points are on the chart."""

import pytest

from league.training.board.metrics_log import MetricsLog
from league.training.board.server import serve_tensorboard

DRAWN = "[...document.querySelectorAll('line-chart text')].some(text => text.textContent.trim() == '40')"


@pytest.fixture
def board(tmp_path):
    """Serve a curve that falls from 100 to 1 at once, and stays there."""
    with MetricsLog(tmp_path) as log:
        for iteration in range(40):
            log.write(iteration, {"kuhn_poker/exploitability": 1.0 if iteration else 100.0})
    return serve_tensorboard([tmp_path], 0)


def ticks(page):
    """Return the numbers along the axes of the charts."""
    page.wait_for_function(DRAWN)  # the end of the axis of iterations
    texts = page.evaluate("[...document.querySelectorAll('line-chart text')].map(one => one.textContent.trim())")
    return {float(text) for text in texts}


def test_the_first_point_is_on_the_chart(browser, board):
    with browser.open(board) as page:
        assert max(ticks(page)) == 100.0
