"""Streaming engines: order changes nothing, matches stay in flight, failures are named, weights are pinned."""

import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from support.matches.kuhn import kuhn_matches, roles_for
from support.matches.offices import make_office, office_request

from arena.errors import EngineError
from arena.records import Reply
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from roles.cards import load_roles


class Threads:
    """Replies as ``Random`` does, from several threads, each reply after a random delay."""

    def __init__(self, seed=0, slowest=0.003):
        self._pool, self._lock = ThreadPoolExecutor(8), threading.Lock()
        self._delays = random.Random(seed)
        self._slowest = slowest
        self.under_way = self.most = 0

    def submit(self, request):
        [reply] = Random().sample([request])
        with self._lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        return self._pool.submit(self._answer, reply, self._delays.uniform(0, self._slowest))

    def _answer(self, reply, delay):
        time.sleep(delay)
        with self._lock:
            self.under_way -= 1
        return reply


class Silent:
    """Never replies."""

    def __init__(self):
        self.futures = []

    def submit(self, request):
        self.futures.append(Future())
        return self.futures[-1]


def run(matches, engine_of, in_flight=16, on_episode=None):
    return play(
        matches,
        roles_of=lambda _: roles_for(),
        engine_of=engine_of,
        make_game=make_game,
        in_flight=in_flight,
        on_episode=on_episode,
    )


@pytest.mark.parametrize(("in_flight", "seed"), [(1, 0), (3, 1), (16, 2), (200, 3)])
def test_the_order_of_replies_changes_nothing(in_flight, seed):
    matches, batch, threads = kuhn_matches(60), Random(), Threads(seed)
    expected = run(matches, lambda _: batch, 60)
    assert run(matches, lambda _: threads, in_flight) == expected
    assert run(matches, {"a": batch, "b": threads}.__getitem__, in_flight) == expected
    assert 1 <= threads.most <= in_flight


def test_other_matches_stay_in_flight_while_one_reply_is_late():
    """One match waits for a slow reply; all other matches are played meanwhile, as many at a time as allowed."""
    release, ended, threads = Future(), [], Threads()

    class Late:
        def submit(self, request):
            return release

    def on_episode(episode):
        ended.append(episode.request.index)
        if len(ended) == 39:
            release.set_result(Reply("bet"))

    matches = [match._replace(players=("late", "b")) if match.index == 0 else match for match in kuhn_matches(40)]
    late = Late()
    run(matches, lambda player: late if player == "late" else threads, 4, on_episode)
    assert ended[-1] == 0
    assert threads.most == 3


def test_openers_wait_for_their_submatches_for_any_order_of_replies():
    requests = [office_request(index) for index in range(12)]
    arguments = {"roles_of": lambda name: load_roles(make_office(name).spec), "make_game": make_office, "in_flight": 5}
    batch, threads = Random(), Threads()
    expected = play(requests, engine_of=lambda _: batch, **arguments)
    assert play(requests, engine_of=lambda _: threads, **arguments) == expected


@pytest.mark.parametrize("at_once", [True, False])
def test_a_failed_request_is_named_and_the_other_requests_are_cancelled(at_once):
    silent = Silent()

    class Broken:
        def submit(self, request):
            if at_once:
                raise KeyError("weights")
            broken = Future()
            broken.set_exception(KeyError("weights"))
            return broken

    engines = {"a": Broken(), "b": silent}
    with pytest.raises(EngineError, match="engine Broken failed on a request for a: KeyError: 'weights'"):
        run(kuhn_matches(8, ("b", "a")), engines.__getitem__)
    assert silent.futures
    assert all(future.cancelled() for future in silent.futures)


def test_a_usage_error_is_raised_as_it_is():
    future = Future()
    future.set_exception(UsageError("too long"))

    class Refusing:
        def submit(self, request):
            return future

    refusing = Refusing()
    with pytest.raises(UsageError, match="too long"):
        run(kuhn_matches(1), lambda _: refusing)


def test_an_interruption_cancels_pending_requests():
    silent = Silent()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run(kuhn_matches(8), lambda _: silent)
    assert len(silent.futures) == 8
    assert all(future.cancelled() for future in silent.futures)


class Versions(Threads):
    """Has a new version of its weights after every few requests, and records the version that each request names."""

    def __init__(self):
        super().__init__()
        self.version, self.requests, self.pinned, self.most_pinned = 0, 0, Counter(), 0
        self.seen = []

    def pin(self, player):
        weights = f"{player}#{self.version}"
        self.pinned[weights] += 1
        self.most_pinned = max(self.most_pinned, len([count for count in self.pinned.values() if count]))
        return weights

    def unpin(self, weights):
        self.pinned[weights] -= 1

    def submit(self, request):
        self.requests += 1
        if self.requests % 7 == 0:
            self.version += 1
        self.seen.append((id(request.rng), request.player))
        assert self.pinned[request.player] > 0
        return super().submit(request)


def test_a_match_keeps_the_weights_that_it_began_with():
    engine = Versions()
    run(kuhn_matches(60), lambda _: engine, 60)
    versions = {}
    for match, weights in engine.seen:
        versions.setdefault(match, set()).add(weights.partition("#")[2])
    assert all(len(used) == 1 for used in versions.values())  # both seats', from the first turn to the last
    assert engine.most_pinned > 2
    assert len(set.union(*versions.values())) > 3
    assert not any(engine.pinned.values())


def test_submatches_play_with_their_openers_weights_and_a_failure_unpins_all():
    engine = Versions()
    requests = [office_request(index) for index in range(6)]
    arguments = {"roles_of": lambda name: load_roles(make_office(name).spec), "make_game": make_office}
    play(requests, engine_of=lambda _: engine, in_flight=6, **arguments)
    assert not any(engine.pinned.values())

    class Failing(Versions):
        def submit(self, request):
            if self.requests > 10:
                raise OSError("gone")
            return super().submit(request)

    failing = Failing()
    with pytest.raises(EngineError, match=r"request for [^#]+: OSError: gone"):
        play(requests, engine_of=lambda _: failing, in_flight=6, **arguments)
    assert failing.pinned
    assert not any(failing.pinned.values())
