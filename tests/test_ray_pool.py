"""A pool on a real Ray cluster: the episodes of one process, whoever is slow, fails or dies."""

import os
import sys

import pytest
import small_pool
from small_pool import matches, played_here

from arena.cluster import Post
from arena.errors import EngineError
from arena.pool import Pool, Posts, cut
from arena.ray_pool import RayCluster
from games.errors import UsageError

WORKER = Post("worker", small_pool.Plays, (), 0.5)
ENGINE = Post("engine", small_pool.Answers, (), 0.5)


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # so that members find small_pool
        patch.setenv("RAY_worker_niceness", "0")  # as other tests that run at the same time
        with RayCluster("local", 4) as joined:
            yield joined


def pool(cluster, posts, size=16, patience=300.0):
    return Pool(cluster, posts, matches=size, patience=patience)


@pytest.mark.parametrize("engines", [0, 2])
def test_it_plays_the_matches_of_one_process(cluster, engines):
    players = pool(cluster, Posts(WORKER, 2, ENGINE if engines else None, engines))
    for number in (100, 3):
        assert players.play(matches(number), {}) == played_here(matches(number))
    assert sum(players.matches_by_engine.values()) == 103
    players.close()


def test_pieces_hold_every_match_once_and_know_who_sits_in_them():
    pieces = cut(matches(10), 4)
    assert [[one.index for one in piece.requests] for piece in pieces] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert {piece.players for piece in pieces} == {frozenset({"random"})}
    assert cut([], 4) == []


def test_a_slow_worker_gets_less(cluster, tmp_path):
    slow = Post("worker", small_pool.PlaysSlowly, (str(tmp_path), 0.5), 0.5)
    players = pool(cluster, Posts(slow, 2), size=8)
    assert players.play(matches(200), {}) == played_here(matches(200))
    least, most = sorted(players.matches_by_engine.values())
    assert least + most == 200
    assert 3 * least < most
    players.close()


def test_a_slow_engine_gets_less(cluster, tmp_path):
    """It is asked once a round, twice or thrice a match of Kuhn poker, and takes 0.2 s for each answer."""
    slow = Post("engine", small_pool.Answers, (str(tmp_path), 0.2), 0.5)
    players = pool(cluster, Posts(WORKER, 2, slow, 2), size=8)
    assert players.play(matches(200), {}) == played_here(matches(200))
    least, most = sorted(players.matches_by_engine.values())
    assert least + most == 200
    assert 3 * least < most
    players.close()


@pytest.mark.parametrize("kind", [UsageError, EngineError])
def test_what_is_wrong_is_told_in_its_own_words(cluster, kind):
    players = pool(cluster, Posts(Post("worker", small_pool.Refuses, (kind,), 0.5), 2))
    with pytest.raises(kind) as told:
        players.play(matches(64), {})
    assert type(told.value) is kind
    assert str(told.value) == "Match 40 is wrong. Leave it out."
    assert players.play(matches(32), {}) == played_here(matches(32))  # the pool goes on
    players.close()


def test_an_engine_that_fails_is_told_in_its_own_words(cluster):
    players = pool(cluster, Posts(WORKER, 1, Post("engine", small_pool.Breaks, (), 0.5), 1))
    with pytest.raises(EngineError, match=r"failed on \d+ requests for random: EngineError: Its memory is full\."):
        players.play(matches(4), {})
    players.close()


def test_a_worker_that_dies_is_replaced_and_its_piece_counts_once(cluster, tmp_path):
    players = pool(cluster, Posts(Post("worker", small_pool.Dies, (str(tmp_path), 2), 0.5), 2))
    assert players.play(matches(100), {}) == played_here(matches(100))
    assert sum(players.matches_by_engine.values()) == 100
    assert len(list(tmp_path.iterdir())) == 2
    players.close()


def test_an_engine_that_dies_is_replaced_and_its_pieces_count_once(cluster, tmp_path):
    dies = Post("engine", small_pool.Answers, (str(tmp_path), 0.0, 2), 0.5)
    players = pool(cluster, Posts(WORKER, 2, dies, 2))
    assert players.play(matches(100), {}) == played_here(matches(100))
    assert sum(players.matches_by_engine.values()) == 100
    assert len(list(tmp_path.iterdir())) == 3  # and one that was slow
    players.close()


def test_a_piece_that_kills_everybody_ends_the_play(cluster, tmp_path):
    players = pool(cluster, Posts(Post("worker", small_pool.Dies, (str(tmp_path), 99), 0.5), 2))
    with pytest.raises(EngineError, match=r"^Matches 32 to 47 were begun 3 times, and each time .* worker \d died \("):
        players.play(matches(100), {})
    players.close()


def test_it_says_who_did_not_start(cluster):
    players = pool(cluster, Posts(WORKER._replace(cpus=64.0), 1), patience=1.0)
    with pytest.raises(EngineError, match=r"^Nobody in the cluster could play for 1 s: worker 0 did not start\."):
        players.play(matches(4), {})
    players.close()


def test_it_says_why_nobody_can_start(cluster):
    players = pool(cluster, Posts(WORKER._replace(kind="bad", make=small_pool.Unborn), 1))
    with pytest.raises(EngineError, match=r"^Matches 0 to 3 were begun 3 times"):
        players.play(matches(4), {})
    players.close()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:9", "refused"),
        ("somewhere", "an address is HOST:PORT, auto or local"),
        ("ray://127.0.0.1:10001", "steered from outside"),
    ],
)
def test_no_cluster_there(address, reason):
    with pytest.raises(UsageError, match=reason):
        RayCluster(address, 1)
