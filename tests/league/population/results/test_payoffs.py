"""Payoffs: worked sums, forgetting, N seats, exact round trips, and a journal that folds to the same table."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.timing import processor_seconds

from arena.records import EndReason, Episode, MatchRequest, Turn
from games.common.errors import DamagedFile
from league.population.results import journal
from league.population.results.payoffs import PayoffTable, Result, summarise
from league.theory.statistics import Estimate, wilson


def episode(index: int, players: tuple[str, ...], returns: tuple[float, ...], silent: tuple[int, ...] = ()) -> Episode:
    """Return a match in which every seat but the silent ones had one turn, in the role r0, r1, …"""
    request = MatchRequest(index, "toy", index, index, players, (True,) * len(players))
    turns = tuple(
        Turn(seat, f"r{seat}", player, "", ("a",), "a", "a", gain, None)
        for seat, (player, gain) in enumerate(zip(players, returns, strict=True))
        if seat not in silent
    )
    return Episode(request, turns, returns, EndReason.FINISHED)


def result(player: str, opponent: str, n: int, score: float, iteration: int, role: str = "r0") -> Result:
    return Result(player, opponent, "toy", role, n, 0.0, 0.0, score, iteration)


def test_summary_of_worked_matches() -> None:
    results = summarise(
        [
            episode(2, ("a", "b"), (-1.0, 1.0)),
            episode(1, ("a", "b"), (2.0, -2.0)),
            episode(3, ("b", "a"), (0.0, 0.0)),
        ],
        iteration=9,
    )
    assert results == [
        Result("a", "b", "toy", "r0", 2, 1.0, 5.0, 1.0, 9, 2, 1.0, 1.0, 1.0),
        Result("a", "b", "toy", "r1", 1, 0.0, 0.0, 0.5, 9, 1, 0.0, 0.25, 0.5),
        Result("b", "a", "toy", "r0", 1, 0.0, 0.0, 0.5, 9, 1, 0.0, 0.25, 0.5),
        Result("b", "a", "toy", "r1", 2, -1.0, 5.0, 1.0, 9, 2, -1.0, 1.0, 1.0),
    ]


def test_with_three_seats_each_player_counts_once_a_match() -> None:
    results = summarise([episode(0, ("a", "b", "b"), (0.0, 1.0, -1.0))], 0)
    assert results == [
        Result("a", "b", "toy", "r0", 1, 0.0, 0.0, 0.5, 0, 1, 0.0, 0.25, 0.5),  # lost to one b, beat the other
        Result("b", "a", "toy", "r1", 1, 1.0, 1.0, 1.0, 0, 1, 1.0, 1.0, 1.0),
        Result("b", "a", "toy", "r2", 1, -1.0, 1.0, 0.0, 0, 1, -1.0, 0.0, 0.0),
        Result("b", "b", "toy", "r1", 1, 1.0, 1.0, 1.0, 0, 1, 1.0, 1.0, 1.0),
        Result("b", "b", "toy", "r2", 1, -1.0, 1.0, 0.0, 0, 1, -1.0, 0.0, 0.0),
    ]


def test_a_silent_seat_takes_the_role_of_its_seat() -> None:
    matches = [episode(0, ("a", "b"), (1.0, -1.0), silent=(1,)), episode(1, ("a", "b"), (1.0, -1.0))]
    assert {item.role for item in summarise(matches, 0)} == {"r0", "r1"}


@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_the_summary_does_not_depend_on_the_order_of_the_matches(rng: random.Random, count: int) -> None:
    matches = []
    for index in range(count):
        gain = rng.uniform(-1, 1)
        matches.append(episode(index, (rng.choice("abc"), rng.choice("abc")), (gain, -gain)))
    shuffled = rng.sample(matches, count)
    assert summarise(matches, 0) == summarise(shuffled, 0)


def test_win_rate_counts_draws_half_and_roles_alike() -> None:
    table = PayoffTable()
    table.apply([result("a", "b", 10, 10.0, 0, "r0"), result("a", "b", 30, 15.0, 0, "r1")])
    assert table.pair_record("a", "b", "toy").score == 0.75
    assert table.pair_record("a", "nobody", "toy").score == 0.5
    assert table.pair_record("a", "b", "other game").score == 0.5


def test_mirror_matches_count_for_the_role_and_for_no_pair() -> None:
    table = PayoffTable()
    table.apply(summarise([episode(i, ("a", "a"), (1.0, -1.0)) for i in range(4)], 0))
    assert table.pair_record("a", "a", "toy").score == 0.5
    assert {role: record.score.mean for role, record in table.role_records("a", "a", "toy").items()} == {
        "r0": 1,
        "r1": 0,
    }
    _, scores = table.matrix(["a", "b"], "toy")
    assert np.isnan(scores).all()


def test_matrix_has_nan_where_nobody_met() -> None:
    table = PayoffTable()
    table.apply(summarise([episode(0, ("a", "b"), (2.0, -2.0)), episode(1, ("b", "a"), (2.0, -2.0))], 0))
    table.apply(summarise([episode(2, ("a", "c"), (0.0, 0.0))], 1))
    returns, scores = table.matrix(["a", "b", "c"], "toy")
    nan = math.nan
    np.testing.assert_array_equal(returns, [[nan, 0, 0], [0, nan, nan], [0, nan, nan]])
    np.testing.assert_array_equal(scores, [[nan, 0.5, 0.5], [0.5, nan, nan], [0.5, nan, nan]])
    assert table.matrix([], "toy")[0].shape == (0, 0)


def test_roles_count_alike_in_the_matrix_however_often_each_was_played() -> None:
    """As first 4 in one match, as second 0 and a score of 1/3 in three: the means of 4 and 0, and of 1 and 1/3."""
    table = PayoffTable()
    table.apply(
        [Result("a", "b", "toy", "r0", 1, 4.0, 16.0, 1.0, 0), Result("a", "b", "toy", "r1", 3, 0.0, 0.0, 1.0, 0)]
    )
    returns, scores = table.matrix(["a", "b"], "toy")
    assert returns[0, 1] == 2.0
    assert scores[0, 1] == pytest.approx(2 / 3)


def test_one_iteration_is_enough_to_forget() -> None:
    """Eight wins weigh four after an iteration, against eight losses; whoever of the two is live."""
    for live in ("main", "old"):
        table = PayoffTable(live=[live], forgetting=0.5)
        table.apply([result("main", "old", 8, 8.0, 0)])
        table.apply([result("main", "old", 8, 0.0, 1)])
        assert table.pair_record("main", "old", "toy").score == 4 / 12


def test_a_live_players_results_are_forgotten_and_frozen_ones_kept() -> None:
    table = PayoffTable(live=["main"], forgetting=0.5)
    table.apply([result("main", "old", 8, 8.0, 0), result("old", "older", 8, 8.0, 0)])
    table.apply([result("main", "old", 8, 0.0, 2), result("old", "older", 8, 0.0, 2)])
    # Two iterations later 8 wins weigh 8 * 0.5^2 = 2, against 8 losses.
    assert table.pair_record("main", "old", "toy").score == 2 / 10
    assert table.pair_record("old", "older", "toy").score == 1 / 2
    record = table.role_records("main", "old", "toy")["r0"]
    assert record.n == 10.0
    assert record.effective_n == pytest.approx(10**2 / (8 * 0.25**2 + 8))
    table.apply([result("x", "y", 1, 1.0, 5)])
    assert table.role_records("main", "old", "toy")["r0"].n == 10.0 / 8
    assert table.role_records("old", "older", "toy")["r0"].n == 16.0


def test_what_is_forgotten_altogether_is_not_computed() -> None:
    table = PayoffTable(live=["main"], forgetting=0.9)
    table.apply([result("main", "old", 8, 8.0, 0), result("x", "y", 1, 1.0, 100_000)])
    assert table.role_records("main", "old", "toy") == {}


def test_forgetting_in_many_small_steps_equals_one_large_step() -> None:
    stepped, once = (PayoffTable(live=["main"], forgetting=0.9) for _ in range(2))
    for table in (stepped, once):
        table.apply([result("main", "old", 100, 60.0, 0)])
    for iteration in range(1, 30):
        stepped.apply([result("x", "y", 1, 1.0, iteration)])
    once.apply([result("x", "y", 1, 1.0, 29)])
    assert stepped.role_records("main", "old", "toy") == once.role_records("main", "old", "toy")


def test_results_of_the_past_are_refused() -> None:
    table = PayoffTable()
    table.apply([result("a", "b", 1, 1.0, 3)])
    with pytest.raises(ValueError, match="iteration 2 after one of 3"):
        table.apply([result("a", "b", 1, 1.0, 2)])


def test_intervals() -> None:
    # Wilson's interval for 5 of 10 and 0 of 10: published as (0.2366, 0.7634) and (0, 0.2775).
    assert wilson(0.5, 10) == pytest.approx((0.5, 0.2366, 0.7634), abs=1e-4)
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.0, 0.2775), abs=1e-4)
    table = PayoffTable()
    table.apply([Result("a", "b", "toy", "r0", 4, 4.0, 8.0, 2.0, 0)])
    # Returns 0, 0, 2, 2: sample variance 4/3, standard error 1/sqrt(3), Student's quantile with 3 degrees of freedom.
    low, high = 1 - 3.182446 / math.sqrt(3), 1 + 3.182446 / math.sqrt(3)
    assert table.role_records("a", "b", "toy")["r0"].returns == pytest.approx((1.0, low, high), abs=1e-6)
    table.apply([Result("a", "c", "toy", "r0", 1, 2.0, 4.0, 1.0, 0)])
    assert table.role_records("a", "c", "toy")["r0"].returns == Estimate(2.0, None, None)


def random_results(seed: int, iterations: int) -> list[list[Result]]:
    rng = random.Random(seed)
    batches = []
    for iteration in range(iterations):
        matches = []
        for index in range(rng.randrange(20)):
            players = ("main", f"old-{rng.randrange(4)}") if rng.random() < 0.6 else ("old-1", "old-2")
            gain = rng.uniform(-2, 2)
            matches.append(episode(index, players, (gain, -gain)))
        batches.append(summarise(matches, iteration))
    return batches


def test_the_journal_folds_to_the_same_table_and_is_cut_back(tmp_path: Path) -> None:
    path, checksum = tmp_path / "payoffs.jsonl", ""
    batches = random_results(5, 10)
    assert journal.replay(path, 3) == ([], "", 0, 0)
    for iteration, batch in enumerate(batches):
        checksum = journal.append(path, iteration, batch, checksum)
    direct, replayed = (PayoffTable(["main"], 0.9) for _ in range(2))
    for batch in batches[:7]:
        direct.apply(batch)
    with path.open("a") as file:
        file.write('[10,[["main","old')  # killed in the middle of a line
    replay = journal.replay(path, 6)
    replayed.apply(replay.results)
    assert json.dumps(replayed.to_json()) == json.dumps(direct.to_json())
    journal.truncate(path, replay)
    assert len(path.read_text().splitlines()) == replay.iterations == 7
    journal.append(path, 7, batches[7], replay.checksum)
    assert journal.replay(path, 99).results == [item for batch in batches[:8] for item in batch]


def test_a_checksum_is_the_sha256_of_the_one_before_and_the_line(tmp_path: Path) -> None:
    """The expected digests are those of ``sha256sum``, given the checksum before and the line without its own."""
    path = tmp_path / "payoffs.jsonl"
    first = journal.append(path, 0, [], "")
    assert first == "e4c7a41ff176dfd6ab981800d39531e03aa6aa8d05fbd6a0d0192c1ec23f9519"
    second = journal.append(path, 1, [], first)
    assert second == "7a4f1f5ede3b098e5b8604aad060c331fcee6a5300c10fdd69f9701669af62c9"
    assert path.read_text() == f'[0,[],"{first}"]\n[1,[],"{second}"]\n'


@pytest.mark.parametrize(
    ("damage", "number"),
    [
        (lambda lines: [lines[0], lines[1].replace(b"old-", b"odd-"), *lines[2:]], 2),
        (lambda lines: [lines[0], lines[1].replace(b",1,", b",2,", 1), *lines[2:]], 2),
        (lambda lines: lines[1:], 1),
        (lambda lines: lines[:2] + lines[3:], 3),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 1),
        (lambda lines: [*lines[:2], b"[2,[]]\n"], 3),
        (lambda lines: [*lines[:2], b"\xff\n", *lines[2:]], 3),
        (lambda lines: [*lines[:2], b"{\n"], 3),
    ],
    ids=["word", "digit", "first line gone", "line gone", "lines swapped", "no checksum", "bytes", "bracket"],
)
def test_a_journal_that_was_changed_anywhere_is_refused_by_line(
    damage: Callable[[list[bytes]], list[bytes]], number: int, tmp_path: Path
) -> None:
    path, checksum = tmp_path / "payoffs.jsonl", ""
    for iteration in range(4):
        checksum = journal.append(path, iteration, [result("main", "old-1", 1, 1.0, iteration)], checksum)
    lines = path.read_bytes().splitlines(keepends=True)
    assert damage(lines) != lines
    path.write_bytes(b"".join(damage(lines)))
    with pytest.raises(DamagedFile, match=rf"payoffs\.jsonl is damaged \(line {number}, or one before it"):
        journal.replay(path, 5)


def test_a_journal_that_ends_too_early_has_another_checksum(tmp_path: Path) -> None:
    path, checksums = tmp_path / "payoffs.jsonl", [""]
    for iteration in range(3):
        checksums.append(journal.append(path, iteration, [], checksums[-1]))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    assert journal.replay(path, 5).checksum == checksums[2] != checksums[3]


def test_a_win_rate_and_an_update_cost_the_same_in_a_large_population() -> None:
    def cost(population: int) -> float:
        table = PayoffTable(["main"], 0.9)
        table.apply([result("main", f"old-{i}", 1, 1.0, 0) for i in range(population)])
        batch = [result("main", f"old-{i}", 1, 1.0, 1) for i in range(8)]

        def use() -> None:
            for _ in range(20):
                table.apply(batch)
                table.pair_record("main", "old-3", "toy")

        return processor_seconds(use, repeats=30)

    assert cost(5000) < 3 * cost(8)
