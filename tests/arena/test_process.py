"""How many threads a process uses, and that its settings are restored."""

import pytest
import torch

from arena.process import available_cores, available_threads, fewest_nearly_best, measured_threads, tuned_process


@pytest.mark.parametrize(
    ("variable", "threads"),
    [("3", 3), ("2,1", 2), (" 1 ", 1), ("", available_cores()), ("0", available_cores()), ("all", available_cores())],
)
def test_threads_are_what_the_environment_says_else_the_cores(variable, threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert available_threads() == threads
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert available_threads() == available_cores()


def test_a_run_obeys_the_environment_unless_its_settings_say_otherwise(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with tuned_process(0):
        assert torch.get_num_threads() == 3
    with tuned_process(2):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == before


def test_the_fewest_threads_are_taken_that_compute_nearly_as_fast():
    assert fewest_nearly_best({1: 4.0, 2: 2.1, 4: 2.0, 8: 3.0}) == 2
    assert fewest_nearly_best({1: 1.0, 2: 50.0}) == 1  # another process keeps a core busy
    before = torch.get_num_threads()
    assert 1 <= measured_threads(available_cores()) <= available_cores()
    assert torch.get_num_threads() == before
    assert measured_threads(1) == 1
