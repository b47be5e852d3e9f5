"""A match's generator: the published SplitMix64, and the contract of ``random.Random`` for a subclass."""

import copy
import statistics

import pytest

from arena.match_rng import SALT, MatchRng
from games.openspiel.positions import next_random

# The first outputs of SplitMix64 for the seed 1234567, as its test vectors give them.
REFERENCE = (6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431)


def draws(stream, number):
    return [stream.random() for _ in range(number)]


def test_published_numbers():
    stream = MatchRng(1234567 ^ SALT)
    assert [stream.random() for _ in REFERENCE] == [(word >> 11) / 2**53 for word in REFERENCE]


def test_a_stream_does_not_repeat_the_game_that_has_the_same_seed():
    for seed in range(100):
        generator, dealt = seed, []
        for _ in range(8):
            generator, number = next_random(generator)
            dealt.append(number)
        stream = MatchRng(seed)
        assert not {stream.random() for _ in range(8)} & set(dealt)


def test_moments_within_and_across_neighbouring_seeds():
    for numbers in ([MatchRng(seed).random() for seed in range(20_000)], draws(MatchRng(5), 20_000)):
        assert statistics.mean(numbers) == pytest.approx(0.5, abs=0.01)
        assert statistics.variance(numbers) == pytest.approx(1 / 12, abs=0.003)


def test_it_can_be_seeded_again_saved_and_copied():
    stream = MatchRng(3)
    first = stream.random()
    state = stream.getstate()
    following = [stream.random(), stream.gauss(0, 1), stream.choice("abcdef"), stream.getrandbits(200)]
    other = MatchRng(9)
    other.setstate(state)
    assert [other.random(), other.gauss(0, 1), other.choice("abcdef"), other.getrandbits(200)] == following
    assert copy.copy(stream).random() == stream.random()
    stream.seed(3)
    assert stream.random() == first


@pytest.mark.parametrize("bits", [1, 31, 53, 54, 128])
def test_bits(bits):
    stream = MatchRng(1)
    drawn = [stream.getrandbits(bits) for _ in range(400)]
    assert all(0 <= number < 2**bits for number in drawn)
    assert statistics.mean(number / 2**bits for number in drawn) == pytest.approx(0.25 if bits == 1 else 0.5, abs=0.1)
