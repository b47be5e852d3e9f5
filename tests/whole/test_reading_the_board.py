"""The numbers in docs/reading_the_board.md are those in the event files of the stored run."""

import re

import pytest
from support.pages import page_of
from support.source import ROOT
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

PAGE = page_of("reading_the_board").read_text(encoding="utf-8")
CLAIM = re.compile(r"`([\w/]+)`\s+=\s+(-?\d+(?:\.\d+)?)(?:\s+at\s+iteration\s+(\d+))?")
CLAIMS = CLAIM.findall(PAGE)


@pytest.fixture(scope="module")
def curves():
    events = EventAccumulator(str(ROOT / "tests" / "data" / "pocket-league" / "tb"), size_guidance={"scalars": 0})
    events.Reload()
    names = events.Tags()["scalars"]
    figures = set(events.Tags()["images"])
    return {name: {event.step: event.value for event in events.Scalars(name)} for name in names}, figures


@pytest.mark.parametrize(("name", "value", "iteration"), CLAIMS, ids=lambda part: part or "last")
def test_a_number_is_that_of_the_event_files(name, value, iteration, curves):
    numbers = curves[0][name]
    found = numbers[int(iteration) if iteration else max(numbers)]
    assert found == pytest.approx(float(value), abs=0.51 * 10 ** -len(value.partition(".")[2]))


def test_ten_questions_are_answered_with_numbers():
    questions = re.findall(r"^\d+\. \*\*.+?\?\*\*(.+?)(?=^\d+\. |\Z)", PAGE, flags=re.M | re.S)
    assert len(questions) == 10
    assert all(CLAIM.search(answer) for answer in questions)


def test_the_figures_that_are_named_were_drawn(curves):
    named = set(re.findall(r"`(\d_[\w]+/[\w/]+)`", PAGE))
    assert named
    assert named <= curves[1]
