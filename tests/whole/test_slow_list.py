"""The list of slow tests in tests/README.md names every file that has one, and takes its minutes from a log."""

from benchmarks.report import slow_tests

LOG = """
12.00s call     tests/whole/test_learns.py::test_a[x]
48.00s setup    tests/whole/test_learns.py::test_b
0.30s call     tests/whole/test_house.py::test_c
"""


def test_the_page_lists_every_file_with_slow_tests():
    page = slow_tests.PAGE.read_text("utf-8")
    assert page == slow_tests.with_table(page), "write it again: python -m benchmarks.report.slow_tests"
    assert all(f"| `{file}` |" in page for file in slow_tests.slow_files())


def test_minutes_come_from_a_log_and_stay_where_a_log_says_nothing():
    assert slow_tests.durations(LOG) == {"whole/test_learns.py": 60.0, "whole/test_house.py": 0.3}
    page = slow_tests.with_table(f"Tests\n\n{slow_tests.HEAD}\nAfter it.\n", LOG)
    assert "| `whole/test_learns.py` | 1.0 |" in page
    assert "| `whole/test_dilemma.py` | – |" in page
    assert page.endswith("|\n\nAfter it.\n")
    assert slow_tests.with_table(page) == page
