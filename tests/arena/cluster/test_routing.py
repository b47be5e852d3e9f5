"""Chunks of matches go to the engines that hold their players' weights."""

from collections import Counter
from types import SimpleNamespace

import pytest

from arena.cluster.interface import PendingCall, WorkerId, WorkerSpec
from arena.cluster.match_pool import MatchPool, PlayedChunk, PoolSpec
from arena.records import EndReason, Episode, MatchRequest


class Cluster:
    """Workers in this process; a call is done when it is the oldest, or with it, where a worker ends them together."""

    def __init__(self, *, together=False):
        self._together = together
        self.played, self.workers, self.closed, self._results, self._calls = [], [], [], {}, []

    def start(self, spec, number, restarts):
        worker_id = WorkerId(spec.kind, number, restarts)

        def call(method, *arguments):
            result = number if method == "ready" else None
            self.closed += [number] * (method == "close")
            if method == "play":
                requests, _, engine, _ = arguments
                self.played.append((engine, {player for request in requests for player in request.players}))
                self.workers.append(number)
                result = PlayedChunk([Episode(one, (), (0.0,), EndReason.FINISHED) for one in requests], 0)
            pending = PendingCall(len(self._results), worker_id)
            self._results[pending] = result
            self._calls.append(pending)
            return pending

        return SimpleNamespace(worker_id=worker_id, handle=number, place=None, call=call, stop=lambda: None)

    def get(self, call):
        return self._results[call]

    def wait(self, calls, timeout):
        (oldest, *others) = [call for call in self._calls if call in calls]
        done = [oldest, *(call for call in others if self._together and call.worker_id == oldest.worker_id)]
        self._calls = [call for call in self._calls if call not in done]
        return done


def play(opponents, holds, engines=2):
    """Play a match against each opponent; return the requests' players and engines by chunk, and the episodes."""
    cluster = Cluster()
    specs = PoolSpec(WorkerSpec("worker", object, (), 1.0), 2 * engines, WorkerSpec("engine", object, (), 1.0), engines)
    pool = MatchPool(cluster, specs._replace(holds=holds), chunk_size=4)
    requests = [MatchRequest(i, "g", i, i, ("main", name), (True, False)) for i, name in enumerate(opponents)]
    episodes = pool.play(requests, {})
    assert [episode.request for episode in episodes] == requests
    return cluster.played


def loads(played, holds):
    """Return how often an engine had to load a player's weights."""
    held, number = {}, 0
    for engine, players in played:
        has = held.setdefault(engine, [])
        number += len(players - set(has))
        has[:] = [*[one for one in has if one not in players], *sorted(players)][-holds:]
    return number


OPPONENTS = [f"past-{i % 8}" if i % 2 else "popular" for i in range(128)]


def test_an_opponents_matches_go_to_the_engine_that_holds_it_and_a_popular_ones_to_several():
    played = play(OPPONENTS, holds=3)
    engines = {name: Counter(engine for engine, players in played if name in players) for name in set(OPPONENTS)}
    assert len(engines["popular"]) == 2
    assert min(engines["popular"].values()) > 4
    assert sum(len(of) == 1 for name, of in engines.items() if name != "popular") >= 3
    assert loads(played, 3) < 0.4 * loads(play(OPPONENTS, holds=None), 3)


@pytest.mark.parametrize("holds", [None, 1, 3, 99])
def test_all_engines_are_used_and_every_match_is_played_once(holds):
    played = Counter(engine for engine, _ in play(OPPONENTS, holds))
    assert len(played) == 2
    assert max(played.values()) <= 2 * min(played.values())


@pytest.mark.parametrize(("workers", "chunks"), [(2, 2), (2, 6), (3, 9), (2, 7)])
@pytest.mark.parametrize("together", [False, True])
def test_workers_that_are_as_fast_get_as_many_chunks(workers, chunks, together):
    """Neither the first to answer nor the first to end takes two where another would then be idle."""
    cluster = Cluster(together=together)
    pool = MatchPool(cluster, PoolSpec(WorkerSpec("worker", object, (), 1.0, calls=2), workers), chunk_size=1)
    pool.play([MatchRequest(i, "g", i, i, ("main", "x"), (True, False)) for i in range(chunks)], {})
    share = Counter(cluster.workers)
    assert sorted(share) == list(range(workers))
    assert max(share.values()) - min(share.values()) <= chunks % workers
    taken = cluster.workers[:workers]
    assert sorted(taken) == list(range(workers)), "a worker had two chunks before another had one"


def test_a_stream_fills_all_the_calls_of_its_workers():
    cluster = Cluster()
    pool = MatchPool(cluster, PoolSpec(WorkerSpec("worker", object, (), 1.0, calls=3), 2), chunk_size=1)
    requests = iter([MatchRequest(i, "g", i, i, ("main", "x"), (True, False)) for i in range(9)])
    ended, most = 0, 0
    for episodes in pool.flow(requests, lambda players: {}):
        most = max(most, len(cluster.workers) - ended)
        ended += len(episodes)
    assert ended == 9
    assert most == 6


def test_all_workers_are_closed_though_the_newest_ping_of_some_is_not_answered():
    cluster = Cluster()
    pool = MatchPool(cluster, PoolSpec(WorkerSpec("worker", object, (), 1.0), 3), chunk_size=1)
    pool.play([MatchRequest(i, "g", i, i, ("main", "x"), (True, False)) for i in range(6)], {})
    pool.call_engine("distributions", {}, [])  # pings all, and waits for one
    pool.close()
    assert sorted(cluster.closed) == [0, 1, 2]
