"""The pool of starts: figures by hand, starts that never change, and nothing lost or counted twice after a kill."""

import multiprocessing
import os
import random
import signal
import sqlite3

import pytest

from arena.records import EndReason, Episode, MatchRequest, Start
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.common.errors import DamagedFile, UsageError
from games.registry import make_game
from league.training.starts.measured import StoredStart
from league.training.starts.pool import StartPool, values_by_start
from roles.cards import load_roles

SPECS = {"relay_arithmetic": make_game("relay_arithmetic").spec}  # pays 0 or 1
STARTS = [Start("relay_arithmetic", seed) for seed in range(6)]


def stored(*starts, **fields):
    return [StoredStart(start, 3, author="seed", **fields) for start in starts]


def episode(start, value, index=0, trained=(True, False, False)):
    request = MatchRequest(index, start.game, 0, 0, ("a", "b", "c"), trained).from_start(start)
    return Episode(request, (), (value,) * 3, EndReason.FINISHED)


def matches(start, *values):
    return [episode(start, value) for value in values]


def figures(one):
    return one.plays, one.rate, one.spread, one.surprise, one.best, one.last


def test_figures_by_hand(tmp_path):
    with StartPool(tmp_path / "pool", forgetting=0.5) as pool:
        pool.add(stored(*STARTS))
        pool.record(matches(STARTS[0], 1.0, 0.0, 0.0, 0.0), SPECS, 1)
        [first] = [one for one in pool.starts("relay_arithmetic") if one.start == STARTS[0]]
        assert figures(first) == pytest.approx((4, 0.25, (3 / 16) ** 0.5, 3 / 8, 1.0, 1))
        pool.record(matches(STARTS[0], 1.0, 1.0), SPECS, 3)  # 4 earlier matches weigh 2; both are 3/4 from the mean
        [first] = [one for one in pool.starts("relay_arithmetic") if one.start == STARTS[0]]
        assert figures(first) == pytest.approx((6, 2.5 / 4, (2.5 / 4 * 1.5 / 4) ** 0.5, (0.75 + 1.5) / 4, 1.0, 3))
        pool.record([episode(STARTS[1], 1.0, trained=(False,) * 3)], SPECS, 4)  # of nobody who learns
        assert sum(one.plays for one in pool.starts("relay_arithmetic")) == 6


def test_the_best_match_is_never_forgotten(tmp_path):
    """Iterations of 0.5 and 1, then of less: the best stays 1, the rate is all but the last one's, 1/4."""
    with StartPool(tmp_path / "pool", forgetting=1e-9) as pool:
        pool.add(stored(*STARTS))
        for iteration, values in enumerate([(0.5, 1.0), (0.0, 0.0), (0.5, 0.0)], 1):
            pool.record(matches(STARTS[4], *values), SPECS, iteration)
        for opened in (pool, StartPool(tmp_path / "pool", forgetting=1e-9, reads=True)):
            [one] = [one for one in opened.starts("relay_arithmetic") if one.start == STARTS[4]]
            assert (one.plays, one.rate, one.best, one.last) == pytest.approx((6, 0.25, 1.0, 3))


def test_a_match_is_worth_the_return_of_its_first_trained_seat(tmp_path):
    """The seats are paid differently, and in a game from -13 to 13: 13 is worth all, 0 a half, -6.5 a quarter."""
    start = Start("leduc_poker", 1)
    seated = [((True, True), 0.5), ((False, True), 0.25), ((False, False), None), ((True, False), 0.5)]
    played = [
        episode(start, 0.0, index, trained)._replace(returns=(0.0, -6.5)) for index, (trained, _) in enumerate(seated)
    ]
    found = values_by_start(played, {"leduc_poker": make_game("leduc_poker").spec})
    assert found == {start.name: pytest.approx([value for _, value in seated if value is not None])}


def test_a_start_is_its_content(tmp_path):
    with StartPool(tmp_path / "pool") as pool:
        assert pool.add(stored(*STARTS)) == 6
        assert pool.add(stored(*STARTS, Start("relay_arithmetic", 0, prefix=("1",)))) == 1
        assert pool.add(stored(*STARTS, born=7)) == 0
    assert len({one.name for one in STARTS}) == 6
    with StartPool(tmp_path / "pool", reads=True) as pool:
        assert {one.start for one in pool.starts("relay_arithmetic")} > set(STARTS)
    with sqlite3.connect(tmp_path / "pool") as file:
        file.execute("UPDATE starts SET seed = 99 WHERE seed = 3")
    file.close()
    with pytest.raises(DamagedFile, match="holds what is named"):
        StartPool(tmp_path / "pool")


def test_an_iteration_is_recorded_once_and_known_starts_only(tmp_path):
    with StartPool(tmp_path / "pool") as pool:
        pool.add(stored(*STARTS[:2]))
        pool.record(matches(STARTS[0], 1.0), SPECS, 2)
        for wrong, iteration in ((matches(STARTS[0], 1.0), 2), (matches(STARTS[5], 1.0), 3)):
            with pytest.raises(ValueError, match=r"recorded already|has no start"):
                pool.record(wrong, SPECS, iteration)
        assert [one.plays for one in pool.starts("relay_arithmetic") if one.plays] == [1]


def test_the_checksum_knows_a_lost_or_a_changed_row(tmp_path):
    with StartPool(tmp_path / "pool") as pool:
        pool.add(stored(*STARTS))
        for iteration in (1, 2, 3):
            pool.record(matches(STARTS[iteration], 1.0, 0.0), SPECS, iteration)
        digests = [pool.digest(iteration) for iteration in range(4)]
        assert digests == [pool.recomputed_digest(iteration) for iteration in range(4)]
        assert len(set(digests)) == 4
    for change in ("UPDATE plays SET total = 2 WHERE iteration = 2", "DELETE FROM starts WHERE seed = 5"):
        with sqlite3.connect(tmp_path / "pool") as file:
            file.execute(change)
        file.close()
        with StartPool(tmp_path / "pool") as pool:
            assert pool.recomputed_digest(3) != digests[3]
            assert (pool.recomputed_digest(1) == digests[1]) == change.startswith("UPDATE")


def outcome(iteration, start):
    return matches(start, *(float(random.Random(f"{iteration} {start.seed} {n}").random() < 0.4) for n in range(3)))


def go_on(path, done, iterations):
    """Be a run: forget what is later than the checkpoint, then record each iteration and save the next checkpoint."""
    with StartPool(path, forgetting=0.7) as pool:
        saved = int(done.read_text()) if done.exists() else 0
        pool.discard_after(saved)
        pool.add(stored(*STARTS))
        for iteration in range(saved + 1, iterations + 1):
            played = [one for start in STARTS for one in outcome(iteration, start)]
            made = stored(Start("relay_arithmetic", 100 + iteration), born=iteration, parent=STARTS[0].name)
            pool.record(played, SPECS, iteration, made)
            done.with_suffix(".new").write_text(str(iteration))
            done.with_suffix(".new").rename(done)


def everything(path):
    with StartPool(path, forgetting=0.7) as pool:
        return pool.starts("relay_arithmetic"), pool.digest(10**6), pool.recomputed_digest(10**6)


def check_kills(kills, iterations, folder):
    context, rng = multiprocessing.get_context("fork"), random.Random(kills)
    go_on(folder / "whole", folder / "whole.done", iterations)
    killed = 0
    while killed < kills:
        process = context.Process(target=go_on, args=(folder / "pool", folder / "pool.done", iterations))
        process.start()
        process.join(rng.uniform(0.0, 0.05))
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        if process.exitcode == 0:  # it was done before it could be killed: one more from before its end
            saved = int((folder / "pool.done").read_text())
            (folder / "pool.done").write_text(str(rng.randrange(saved)))
        killed += process.exitcode == -signal.SIGKILL
    go_on(folder / "pool", folder / "pool.done", iterations)
    whole, left = everything(folder / "whole"), everything(folder / "pool")
    assert left == whole
    assert whole[1] == whole[2]
    assert sum(one.plays for one in whole[0]) == iterations * 6 * 3


def test_killed_five_times_a_pool_is_that_of_an_undisturbed_run(tmp_path):
    check_kills(5, 20, tmp_path)


@pytest.mark.thorough
def test_killed_fifty_times_a_pool_is_that_of_an_undisturbed_run(tmp_path):
    check_kills(50, 200, tmp_path)


ROLES = load_roles(make_game("leduc_poker").spec)


def played(*requests):
    engine = Random()
    return play(requests, roles_of=lambda _: ROLES, engine_of=lambda _: engine, make_game=make_game)


def test_a_match_from_a_start_repeats_bit_for_bit():
    request = MatchRequest(3, "leduc_poker", 5, 7, ("a", "b"), (True, True))
    [whole] = played(request)
    start = Start("leduc_poker", 5, prefix=(whole.turns[0].action,))
    begun = request.from_start(start)
    first, second = played(begun), played(begun, begun._replace(index=4))[:1]
    assert first == second
    assert first[0].request.start == start.name


def test_a_request_that_is_not_of_its_start_is_refused():
    request = MatchRequest(3, "leduc_poker", 5, 7, ("a", "b"), (True, True)).from_start(Start("leduc_poker", 5))
    with pytest.raises(UsageError, match="A start never changes"):
        played(request._replace(deal_seed=6))
    with pytest.raises(UsageError, match="takes no task as text"):
        played(MatchRequest(3, "leduc_poker", 5, 7, ("a", "b"), (True, True), task="2 + 2"))
