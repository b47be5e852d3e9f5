"""Chunks that are fed to a worker while it plays: the same episodes, in common batches, and errors for all of them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from support.processes.pool_workers import matches, play_locally

from arena.cluster.fed_play import FedPlay
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.registry import make_game
from roles.cards import load_roles


class WaitingEngine(Random):
    """A random player that waits at its first batch, and knows the matches of every batch by their generators."""

    def __init__(self):
        self.begun, self.go_on, self.batches = Event(), Event(), []

    def sample(self, requests):
        self.begun.set()
        assert self.go_on.wait(60.0)
        self.batches.append(len(requests))
        return super().sample(requests)


def scheduler(engine, in_flight=4):
    def play_fed(source, on_episode):
        return play(
            source,
            roles_of=lambda name: load_roles(make_game(name).spec),
            engine_of=lambda player: engine,
            make_game=make_game,
            in_flight=in_flight,
            on_episode=on_episode,
        )

    return play_fed


def fed(prepare=lambda: None, requests=None):
    """Play two chunks, of which the second is asked for while the first is played; return both calls, and batches."""
    first, second = requests or (matches(24)[:12], matches(24)[12:])
    engine, feeder = WaitingEngine(), FedPlay()
    with ThreadPoolExecutor(2) as callers:
        calls = [callers.submit(feeder.play, first, lambda: None, scheduler(engine))]
        assert engine.begun.wait(60.0)
        calls.append(callers.submit(feeder.play, second, prepare, scheduler(engine)))
        while feeder._waiting.empty():
            pass
        engine.go_on.set()
    feeder.close()
    return calls, engine.batches


def test_each_call_gets_the_episodes_of_its_own_chunk():
    (first, second), batches = fed()
    assert first.result() + second.result() == play_locally(matches(24))
    assert set(batches[:-3]) == {4}  # the second chunk's matches fill the places of the first one's


def test_equal_requests_are_told_apart():
    again = [*matches(6), *matches(6)]
    (first, second), _ = fed(requests=(again, again))
    assert first.result() == second.result() == play_locally(again)


def test_an_error_before_the_second_chunk_ends_both_calls():
    def prepare():
        raise OSError("no such weights")

    calls, _ = fed(prepare)
    for call in calls:
        with pytest.raises(OSError, match="no such weights"):
            call.result()


def test_after_its_last_match_a_play_takes_no_more():
    """The next chunk may need other weights: it is prepared and played by itself."""
    feeder, played, engine = FedPlay(), [], Random()

    def play_fed(source, on_episode):
        played.append(scheduler(engine)(source, on_episode))

    for number in (3, 5):
        assert feeder.play(matches(number), lambda: played.append("prepared"), play_fed) == play_locally(
            matches(number)
        )
    assert feeder.play([], lambda: None, play_fed) == []
    feeder.close()
    assert [one if one == "prepared" else len(one) for one in played] == ["prepared", 3, "prepared", 5]


def test_other_calls_are_made_between_plays():
    feeder = FedPlay()
    assert feeder.run(max, 3, 7) == 7
    with pytest.raises(ZeroDivisionError):
        feeder.run(lambda: 1 // 0)
    feeder.close()
