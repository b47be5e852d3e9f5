"""The study of focal points: its figures of codes that are known, and conditions that differ in what they name."""

import json

import pytest
from support.matches.codes import rows_of

from benchmarks.studies.cooperation.focal_points import (
    ascended,
    code,
    conditions,
    measure_policies,
    measure_study,
    summarise,
)
from benchmarks.studies.cooperation.partners import LEWIS
from league import UsageError, train

FIRST, SWAPPED, CYCLIC = (rows_of(words, LEWIS) for words in [(0, 1, 2), (1, 0, 2), (1, 2, 0)])
SURE = 1.0 - 1e-7  # a model gives no reply a probability of 0


def test_seeds_are_scored_with_the_others_with_themselves_and_with_what_they_began_as():
    """Codes understand each other in the fixed points of a permutation: of a swap one of three, of a cycle none."""
    runs = [
        {"first": leaning(FIRST, SURE), "newest": CYCLIC},
        {"first": leaning(SWAPPED, SURE), "newest": FIRST},
        {"first": leaning(FIRST, SURE), "newest": list(reversed(FIRST))},
        {"first": leaning(FIRST, SURE), "newest": SWAPPED},
    ]
    rows = summarise(runs)
    assert [row["figure"] for row in rows] == pytest.approx([1 / 9, 4 / 9, 4 / 9, 1 / 3])
    assert [row["with_itself"] for row in rows] == pytest.approx([1.0] * 4)
    assert [row["with_first"] for row in rows] == pytest.approx([0.0, 1 / 3, 1.0, 1 / 3], abs=1e-6)
    assert [row["commonest"] for row in rows] == [0.0, 1.0, 1.0, 0.0]


def test_a_code_is_the_likeliest_reply_of_either_seat():
    speaker = [[seat, state, *(0.4 * p + 0.2 for p in row)] for seat, state, *row in FIRST]
    assert code(speaker) == code(FIRST)
    mixed = [row if row[0] == 0 else other for row, other in zip(FIRST, CYCLIC, strict=True)]
    assert code(mixed) not in (code(FIRST), code(CYCLIC))


def leaning(policy, share):
    """Return a policy that is even but for a share of another."""
    return [[seat, state, *((1 - share) / 3 + share * p for p in row)] for seat, state, *row in policy]


def test_a_table_goes_to_the_code_that_its_start_leans_to():
    assert code(ascended(leaning(CYCLIC, 0.02))) == code(CYCLIC)
    told = [a if a[0] == 0 else b for a, b in zip(leaning(SWAPPED, 0.2), leaning(CYCLIC, 0.02), strict=True)]
    heard = [a if a[0] == 1 else b for a, b in zip(leaning(SWAPPED, 0.2), leaning(CYCLIC, 0.02), strict=True)]
    assert code(ascended(told)) == code(ascended(heard)) == code(SWAPPED)  # whichever seat leans further
    end = ascended(leaning(CYCLIC, 0.02))
    assert all(max(row) > 0.99 and sum(row) == pytest.approx(1.0) for _, _, *row in end)


def test_runs_that_end_elsewhere_than_their_start_leads_were_not_foreseen():
    runs = [{"first": leaning(CYCLIC, 0.1), "newest": newest} for newest in (CYCLIC, SWAPPED, CYCLIC)]
    assert [row["foreseen"] for row in summarise(runs)] == [1.0, 0.0, 1.0]


def test_conditions_differ_in_the_model_and_in_what_credits_a_reply():
    pocket, reads, returns = conditions().values()
    assert [config.model.source for config in (pocket, reads, returns)] == ["pocket", "smollm2-135m", "smollm2-135m"]
    assert reads.policy("main").weights == "lora"
    assert all(config.matchmaking.self_play == 1.0 for config in (pocket, reads, returns))
    assert all(config.games[LEWIS].matches == 128 for config in (pocket, reads, returns))
    for config in (pocket, reads):
        assert (config.credit.rule, config.values.exact.all_replies) == ("contribution", True)
    differs = {name for name, value in reads if getattr(returns, name) != value}
    assert differs == {"credit", "values", "objective"}
    assert reads.objective == returns.objective.model_copy(update={"normalisation": "prompt_mean"})
    assert not returns.values.exact.all_replies


def test_the_first_and_the_newest_policy_of_a_run_are_read(tmp_path):
    config = next(iter(conditions().values()))
    train(config.model_copy(update={"iterations": 1, "snapshot_every": 1}), tmp_path / "run")
    found = measure_policies(tmp_path / "run")
    assert len(found["first"]) == len(found["newest"]) == 6
    [stored] = (tmp_path / "run").glob(f"state/tables/main-000000.{LEWIS}.json")
    assert found["first"] == sorted(json.loads(stored.read_text())["data"])
    assert found["first"] != found["newest"]
    assert all(sum(row) == pytest.approx(1.0) for _, _, *row in [*found["first"], *found["newest"]])
    assert [row[:2] for row in found["first"]] == [row[:2] for row in found["newest"]]


def test_one_seed_is_refused(tmp_path):
    with pytest.raises(UsageError, match="give it at least two"):
        measure_study("focal_points", [3], 1, tmp_path)
