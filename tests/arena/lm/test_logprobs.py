"""Chunked log-probs: values and gradients as without chunks, in a fraction of the memory."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.source import ROOT

from arena.lm.logprobs import ScoreOptions, token_scores

VOCABULARY = 13


def drawn(positions, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(positions, 5, generator=generator, dtype=dtype)
    weights = torch.randn(VOCABULARY, 5, generator=generator, dtype=dtype)
    return states, weights, torch.randint(VOCABULARY, (positions,), generator=generator)


def scored(states, weights, targets, temperature, max_logits):
    return token_scores(
        lambda hidden: hidden @ weights.T, states, targets, ScoreOptions(temperature), VOCABULARY, max_logits
    )


@given(st.integers(1, 20), st.integers(1, 20), st.sampled_from([0.5, 1.0, 2.0]))
def test_chunks_change_no_value(positions, rows, temperature):
    states, weights, targets = drawn(positions, positions)
    scores = scored(states, weights, targets, temperature, rows * VOCABULARY)
    distributions = torch.distributions.Categorical(logits=states @ weights.T / temperature)
    torch.testing.assert_close(scores.logprobs, distributions.log_prob(targets))
    torch.testing.assert_close(scores.entropy, distributions.entropy())


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_gradients_are_those_of_finite_differences(rows):
    states, weights, targets = drawn(7)
    states.requires_grad_(), weights.requires_grad_()
    max_logits = rows * VOCABULARY
    assert torch.autograd.gradcheck(lambda s, w: tuple(scored(s, w, targets, 0.7, max_logits)), (states, weights))


def test_bfloat16_logits_are_summed_in_single_precision():
    states, weights, targets = drawn(9, dtype=torch.bfloat16)
    scores = scored(states, weights, targets, 1.0, VOCABULARY)
    assert scores.logprobs.dtype == torch.float32
    logprobs = (states @ weights.T).float().log_softmax(-1)
    torch.testing.assert_close(scores.logprobs, logprobs.gather(1, targets[:, None])[:, 0])


PEAK = """
import sys, torch
sys.path.append("tests")
from support.memory import most_resident
from arena.lm.logprobs import ScoreOptions, token_scores
torch.set_num_threads(1)
width, positions = 150_000, 1024
states, weights = torch.randn(positions, 64, requires_grad=True), torch.randn(width, 64, requires_grad=True)
targets = torch.randint(width, (positions,))
before = most_resident()
scores = token_scores(lambda hidden: hidden @ weights.T, states, targets, ScoreOptions(), width)
(scores.logprobs + scores.entropy).sum().backward()
print((most_resident() - before) / 2**30, weights.grad.norm() > 0)
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is in other units there")
def test_a_vocabulary_of_150000_never_fills_memory():
    """One tensor of all logits would be 0.6 GB; without chunks, log-probs, entropy and gradients take 2.9 GB."""
    done = subprocess.run([sys.executable, "-c", PEAK], cwd=ROOT, capture_output=True, text=True, check=True)
    gigabytes, moved = done.stdout.split()
    assert moved == "tensor(True)"
    assert float(gigabytes) < 1.2


@pytest.mark.parametrize("rows", [3, 100])
def test_entropy_has_no_gradient_unless_asked_for(rows):
    states, weights, targets = drawn(7)
    states.requires_grad_()
    options = ScoreOptions(0.7, entropy_gradient=False)
    scores = token_scores(lambda hidden: hidden @ weights.T, states, targets, options, VOCABULARY, rows * VOCABULARY)
    assert not scores.entropy.requires_grad
    torch.testing.assert_close(scores.entropy, scored(states, weights, targets, 0.7, 10**6).entropy)
    (slope,) = torch.autograd.grad(scores.logprobs.sum(), states)
    (expected,) = torch.autograd.grad(scored(states, weights, targets, 0.7, 10**6).logprobs.sum(), states)
    torch.testing.assert_close(slope, expected)
