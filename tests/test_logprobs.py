"""Chunked log-probs: the numbers and gradients of the whole, to second differences, in a fraction of the memory."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arena.logprobs import Asked, token_scores

VOCABULARY = 13


def drawn(positions, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(positions, 5, generator=generator, dtype=dtype)
    weights = torch.randn(VOCABULARY, 5, generator=generator, dtype=dtype)
    return states, weights, torch.randint(VOCABULARY, (positions,), generator=generator)


def scored(states, weights, targets, temperature, held):
    return token_scores(lambda own: own @ weights.T, states, targets, Asked(temperature), VOCABULARY, held)


@given(st.integers(1, 20), st.integers(1, 20), st.sampled_from([0.5, 1.0, 2.0]))
def test_chunks_give_what_the_whole_gives(positions, rows, temperature):
    states, weights, targets = drawn(positions, positions)
    found = scored(states, weights, targets, temperature, rows * VOCABULARY)
    distributions = torch.distributions.Categorical(logits=states @ weights.T / temperature)
    torch.testing.assert_close(found.logprobs, distributions.log_prob(targets))
    torch.testing.assert_close(found.entropy, distributions.entropy())


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_gradients_are_the_slopes(rows):
    states, weights, targets = drawn(7)
    states.requires_grad_(), weights.requires_grad_()
    held = rows * VOCABULARY
    assert torch.autograd.gradcheck(lambda s, w: tuple(scored(s, w, targets, 0.7, held)), (states, weights))


def test_bfloat16_logits_are_summed_in_single_precision():
    states, weights, targets = drawn(9, dtype=torch.bfloat16)
    found = scored(states, weights, targets, 1.0, VOCABULARY)
    assert found.logprobs.dtype == torch.float32
    whole = (states @ weights.T).float().log_softmax(-1)
    torch.testing.assert_close(found.logprobs, whole.gather(1, targets[:, None])[:, 0])


PEAK = """
import resource, torch
from arena.logprobs import Asked, token_scores
torch.set_num_threads(1)
width, positions = 150_000, 1024
states, weights = torch.randn(positions, 64, requires_grad=True), torch.randn(width, 64, requires_grad=True)
targets = torch.randint(width, (positions,))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scores = token_scores(lambda own: own @ weights.T, states, targets, Asked(), width)
(scores.logprobs + scores.entropy).sum().backward()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20, weights.grad.norm() > 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is in other units there")
def test_a_vocabulary_of_150000_never_fills_memory():
    """One tensor of all logits would be 0.6 GB; held whole, log-probs, entropy and gradient take 2.9 GB together."""
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", PEAK], cwd=root, capture_output=True, text=True, check=True)
    gigabytes, moved = done.stdout.split()
    assert moved == "tensor(True)"
    assert float(gigabytes) < 1.2


@pytest.mark.parametrize("rows", [3, 100])
def test_an_entropy_that_nothing_is_paid_for_has_no_gradient(rows):
    states, weights, targets = drawn(7)
    states.requires_grad_()
    asked = Asked(0.7, entropy_gradient=False)
    found = token_scores(lambda own: own @ weights.T, states, targets, asked, VOCABULARY, rows * VOCABULARY)
    assert not found.entropy.requires_grad
    torch.testing.assert_close(found.entropy, scored(states, weights, targets, 0.7, 10**6).entropy)
    (slope,) = torch.autograd.grad(found.logprobs.sum(), states)
    (wanted,) = torch.autograd.grad(scored(states, weights, targets, 0.7, 10**6).logprobs.sum(), states)
    torch.testing.assert_close(slope, wanted)
