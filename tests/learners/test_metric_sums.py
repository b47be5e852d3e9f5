"""Sums of metrics are read at once, and are those of reading each by itself, to the last bit."""

import torch

from learners.metric_sums import MetricSums


def test_sums_that_are_read_at_once_have_the_bits_of_sums_that_are_read_one_by_one():
    generator, expected, sums = torch.Generator().manual_seed(0), {}, MetricSums()
    for step in range(50):
        for name in ("gap", "entropy", "turns"):
            values = torch.rand(37, generator=generator) * 10.0 ** (step % 7)
            values = (values * 10).long() if name == "turns" else values
            expected[name] = expected.get(name, 0.0) + float(values.sum())
            sums.add(name, values)
        if step == 20:
            assert sums.mean("gap") == expected["gap"] / expected["turns"]
    assert sums.totals == expected
    assert list(sums.totals) == ["gap", "entropy", "turns"]


def test_sums_keep_no_graph():
    weight = torch.ones(3, requires_grad=True)
    sums = MetricSums()
    sums.add("loss", weight * 2)
    assert not any(total.requires_grad for _, total in sums._unread)
    assert sums.totals == {"loss": 6.0}
