"""A pool on a real Ray cluster plays the episodes of one process, also when workers are slow, fail or die."""

import os
import sys
import time

import pytest
from ray.exceptions import RaySystemError
from support.processes import pool_workers
from support.processes.pool_workers import matches, play_locally

from arena.cluster import ray_cluster
from arena.cluster.interface import WorkerSpec
from arena.cluster.match_pool import MatchPool, PoolSpec, split
from arena.cluster.ray_cluster import RayCluster
from arena.errors import EngineError
from arena.records import Cast
from games.common.errors import UsageError

pytestmark = pytest.mark.thorough

WORKER = WorkerSpec("worker", pool_workers.RandomWorker, (), 0.5)
ENGINE = WorkerSpec("engine", pool_workers.RandomEngine, (), 0.5)


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # so that workers find small_pool
        patch.setenv("RAY_worker_niceness", "0")  # as other tests that run at the same time
        with RayCluster("local", 4) as joined:
            yield joined


def started_pool(cluster, specs, chunk_size=16, start_timeout=300.0, timeout=600.0):
    return MatchPool(cluster, specs, chunk_size=chunk_size, start_timeout=start_timeout, timeout=timeout)


@pytest.mark.parametrize(("engines", "calls"), [(0, 1), (2, 1), (0, 2)])
def test_a_pool_plays_the_episodes_of_one_process(cluster, engines, calls):
    pool = started_pool(cluster, PoolSpec(WORKER._replace(calls=calls), 2, ENGINE if engines else None, engines))
    for number in (100, 3):
        assert pool.play(matches(number), {}) == play_locally(matches(number))
    assert sum(pool.matches_by_engine.values()) == 103
    pool.close()


def test_chunks_hold_every_match_once_and_know_its_players():
    chunks = split(matches(10), 4)
    assert [[request.index for request in chunk.requests] for chunk in chunks] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert {chunk.players for chunk in chunks} == {frozenset({"random"})}
    assert split([], 4) == []
    (request,) = matches(1)
    opens = request._replace(cast=(Cast("lookup", ("sub", "helper"), (True, False)),))
    assert split([opens], 4)[0].players == {"random", "sub", "helper"}, "those of the matches that it may open too"


@pytest.mark.parametrize("calls", [1, 2])
def test_a_slow_worker_gets_less(cluster, calls, tmp_path):
    slow = WorkerSpec("worker", pool_workers.SlowWorker, (str(tmp_path), 0.5), 0.5, calls=calls)
    pool = started_pool(cluster, PoolSpec(slow, 2), chunk_size=8)
    assert pool.play(matches(200), {}) == play_locally(matches(200))
    least, most = sorted(pool.matches_by_engine.values())
    assert least + most == 200
    assert 3 * least < most
    pool.close()


def test_a_slow_engine_gets_less(cluster, tmp_path):
    """It is called once a round, twice or thrice a match of Kuhn poker, and takes 0.2 s for each batch."""
    slow = WorkerSpec("engine", pool_workers.RandomEngine, (str(tmp_path), 0.2), 0.5)
    pool = started_pool(cluster, PoolSpec(WORKER, 2, slow, 2), chunk_size=8)
    assert pool.play(matches(200), {}) == play_locally(matches(200))
    least, most = sorted(pool.matches_by_engine.values())
    assert least + most == 200
    assert 3 * least < most
    pool.close()


@pytest.mark.parametrize("error_class", [UsageError, EngineError])
def test_an_error_in_a_match_is_raised_as_it_is(cluster, error_class):
    pool = started_pool(cluster, PoolSpec(WorkerSpec("worker", pool_workers.RaisingWorker, (error_class,), 0.5), 2))
    with pytest.raises(error_class) as raised:
        pool.play(matches(64), {})
    assert type(raised.value) is error_class
    assert str(raised.value) == "Match 40 is wrong. Leave it out."
    assert pool.play(matches(32), {}) == play_locally(matches(32))  # the pool continues
    pool.close()


def test_an_engine_that_fails_is_named_with_its_error(cluster):
    pool = started_pool(cluster, PoolSpec(WORKER, 1, WorkerSpec("engine", pool_workers.FailingEngine, (), 0.5), 1))
    with pytest.raises(EngineError, match=r"failed on \d+ requests for random: EngineError: Its memory is full\."):
        pool.play(matches(4), {})
    pool.close()


@pytest.mark.parametrize("calls", [1, 2])
def test_a_worker_that_dies_is_replaced_and_its_chunk_counts_once(cluster, calls, tmp_path):
    dying = WorkerSpec("worker", pool_workers.DyingWorker, (str(tmp_path), 2), 0.5, calls=calls)
    pool = started_pool(cluster, PoolSpec(dying, 2))
    assert pool.play(matches(100), {}) == play_locally(matches(100))
    assert sum(pool.matches_by_engine.values()) == 100
    assert len(list(tmp_path.iterdir())) == 2
    pool.close()


@pytest.mark.parametrize("how", ["stopped", "spinning"])
@pytest.mark.parametrize("calls", [1, 2])
def test_a_worker_that_hangs_is_replaced_and_its_chunk_counts_once(cluster, calls, how, tmp_path):
    hangs = WorkerSpec("worker", pool_workers.HangingWorker, (str(tmp_path), how), 0.5, calls=calls)
    pool = started_pool(cluster, PoolSpec(hangs, 2), timeout=2.0)
    started = time.perf_counter()
    assert pool.play(matches(100), {}) == play_locally(matches(100))
    assert time.perf_counter() - started < 60.0
    assert (sum(pool.matches_by_engine.values()), pool.replaced) == (100, {"worker": 1})
    pool.close()


def test_an_engine_that_is_stopped_is_replaced_and_its_chunks_count_once(cluster, tmp_path):
    pool = started_pool(
        cluster,
        PoolSpec(WORKER, 2, WorkerSpec("engine", pool_workers.HangingEngine, (str(tmp_path),), 0.5), 2),
        timeout=2.0,
    )
    assert pool.play(matches(100), {}) == play_locally(matches(100))
    assert sum(pool.matches_by_engine.values()) == 100
    assert pool.replaced["engine"] == 1
    pool.close()


def test_a_worker_that_is_slow_and_gets_on_is_not_replaced(cluster, tmp_path):
    slow = WorkerSpec("worker", pool_workers.SlowWorker, (str(tmp_path), 3.0), 0.5)
    pool = started_pool(cluster, PoolSpec(slow, 1), chunk_size=64, timeout=1.0)
    assert len(pool.play(matches(64), {})) == 64
    assert not pool.replaced
    pool.close()


@pytest.mark.parametrize("hangs", [False, True])
def test_a_flow_plays_every_match_once_while_others_are_played(cluster, hangs, tmp_path):
    worker = WorkerSpec("worker", pool_workers.HangingWorker, (str(tmp_path), "stopped"), 0.5, calls=4)
    (tmp_path / "hang").mkdir() if not hangs else None
    pool = started_pool(cluster, PoolSpec(worker, 2), chunk_size=None, timeout=2.0)
    requests, flowed, open_until = iter(matches(100)), [], [50]

    class Feed:
        def __iter__(self):
            return self

        def __next__(self):
            if len(taken) >= open_until[0]:
                raise StopIteration
            taken.append(next(requests))
            return taken[-1]

    taken = []
    for episodes in pool.flow(Feed(), lambda players: {}):
        flowed += episodes
        if open_until[0] == 50 and len(flowed) > 20:
            assert pool.play(matches(30), {}) == play_locally(matches(30))  # beside it
            open_until[0] = 100
    expected = play_locally(matches(100))
    assert sorted(flowed, key=lambda episode: episode.request.index) == expected
    assert pool.replaced == ({"worker": 1} if hangs else {})
    pool.close()


def test_an_engine_that_dies_is_replaced_and_its_chunks_count_once(cluster, tmp_path):
    dies = WorkerSpec("engine", pool_workers.RandomEngine, (str(tmp_path), 0.0, 2), 0.5)
    pool = started_pool(cluster, PoolSpec(WORKER, 2, dies, 2))
    assert pool.play(matches(100), {}) == play_locally(matches(100))
    assert sum(pool.matches_by_engine.values()) == 100
    assert len(list(tmp_path.iterdir())) == 3  # and one that was slow
    pool.close()


@pytest.mark.parametrize("calls", [1, 2])
def test_a_chunk_that_kills_every_worker_ends_the_play(cluster, calls, tmp_path):
    """With two chunks in a worker it is the guilty one that is named: it is played by itself after the first death."""
    dying = WorkerSpec("worker", pool_workers.DyingWorker, (str(tmp_path), 99), 0.5, calls=calls)
    pool = started_pool(cluster, PoolSpec(dying, 2))
    with pytest.raises(
        EngineError, match=r"^Matches 32 to 47 were started 3 times, and each time .* worker \d died \("
    ):
        pool.play(matches(100), {})
    pool.close()


def test_a_worker_that_did_not_start_is_named(cluster):
    pool = started_pool(cluster, PoolSpec(WORKER._replace(cpus=64.0), 1), start_timeout=1.0)
    with pytest.raises(EngineError, match=r"^No worker of the cluster could play for 1 s: worker 0 did not start\."):
        pool.play(matches(4), {})
    pool.close()


def test_a_worker_that_dies_at_its_start_ends_the_play(cluster):
    pool = started_pool(cluster, PoolSpec(WORKER._replace(kind="bad", make=pool_workers.UnstartableWorker), 1))
    with pytest.raises(EngineError, match=r"^Matches 0 to 3 were started 3 times"):
        pool.play(matches(4), {})
    pool.close()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:9", "refused"),
        ("somewhere", "an address is HOST:PORT, auto or local"),
        ("ray://127.0.0.1:10001", "controlled from outside"),
    ],
)
def test_an_address_without_a_cluster(address, reason):
    with pytest.raises(UsageError, match=reason):
        RayCluster(address, 1)


@pytest.mark.parametrize(
    "error",  # as Ray 2.60 raises them where its processes do not come up
    [
        Exception("The current node timed out during startup. This could happen because some of the raylet failed"),
        RaySystemError("System error: Failed to connect"),
        AssertionError(),
    ],
)
def test_a_node_that_does_not_start_is_a_sentence(error, monkeypatch):
    def fails(**_):
        raise error

    monkeypatch.setattr(ray_cluster.ray, "init", fails)
    with pytest.raises(UsageError, match=r"^--cluster local: Ray could not start a cluster on this machine \("):
        RayCluster("local", 1)
