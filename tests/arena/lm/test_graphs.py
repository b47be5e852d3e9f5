"""CUDA graphs of decoding steps, where there is a GPU."""

import pytest
import torch

from arena.lm.decoding.graphs import GraphPool

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_a_pool_whose_graphs_are_all_gone_takes_new_ones():
    pool = GraphPool(torch.device("cuda"))
    counts = torch.zeros(4, device="cuda")
    for ran in range(3):  # each graph is dropped before the next is captured
        replay = pool.capture(lambda: counts.add_(1.0), [counts])
        replay()
        assert counts.tolist() == [ran + 1.0] * 4
        del replay
        torch.cuda.empty_cache()
