"""What the tests of pages stand on: a page without fault passes, and each fault fails."""

import pytest
from support.browser import NARROW, screenshot, sideways_overflow

PNG = b"\x89PNG"


@pytest.fixture
def page_of(tmp_path):
    """Return a function that writes a page with a body."""

    def write(body):
        path = tmp_path / "page.html"
        path.write_text(f"<!doctype html><meta charset=utf-8><link rel=icon href='data:,'><body>{body}")
        return path

    return write


@pytest.mark.thorough
def test_a_page_is_opened_and_photographed(browser, page_of, tmp_path):
    with browser.open(page_of("<h1>A league</h1>"), offline=True) as page:
        assert page.locator("h1").inner_text() == "A league"
        assert screenshot(page, tmp_path / "page.png").read_bytes().startswith(PNG)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "body",
    [
        "<script>console.error('no')</script>",
        "<script>throw new Error('no')</script>",
        "<img src='missing.png'>",
    ],
    ids=["console", "exception", "missing file"],
)
def test_a_fault_of_a_page_fails_the_test(browser, page_of, body):
    with pytest.raises(AssertionError, match="Chromium complains"), browser.open(page_of(body)) as page:
        page.wait_for_load_state()


@pytest.mark.thorough
def test_a_page_that_asks_a_network_fails_the_test(browser, page_of):
    path = page_of("<script>fetch('http://127.0.0.1:9/').catch(() => {})</script>")
    with pytest.raises(AssertionError, match="Chromium complains"), browser.open(path, offline=True) as page:
        page.wait_for_load_state("networkidle")


@pytest.mark.thorough
def test_a_page_wider_than_its_window_is_seen(browser, page_of):
    with browser.open(page_of("<div style='width:1000px'>wide</div>"), width=NARROW) as page:
        assert sideways_overflow(page) > 100
