"""The study of focal points: its figures of codes that are known, and conditions that differ in what they name."""

import json
import math

import pytest
from support.matches.codes import code_rows

from benchmarks.studies.cooperation import focal_points
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

FIRST, SWAPPED, CYCLIC = (code_rows(LEWIS, words) for words in [(0, 1, 2), (1, 0, 2), (1, 2, 0)])
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


def test_a_step_of_the_table_is_that_of_replies_by_hand(monkeypatch):
    """Of the untrained SmolLM2, which says the last word most: what a word stands for is not how often it is said."""
    monkeypatch.setattr(focal_points, "STEPS", 1)
    said = {"sun": (0.21, 0.28, 0.51), "tree": (0.22, 0.32, 0.46), "fish": (0.16, 0.19, 0.65)}
    heard = {"bem": (0.77, 0.03, 0.2), "dax": (0.68, 0.04, 0.28), "fep": (0.62, 0.03, 0.35)}
    start = [[0, f"it is {state}.", *row] for state, row in said.items()]
    start += [[1, f"word {word}.", *row] for word, row in heard.items()]
    rows = {state.rsplit(" ", 1)[1].rstrip("."): row for _, state, *row in ascended(start)}
    for number, state in enumerate(said):
        raised = [
            p * math.exp(0.1 * (heard[w][number] - 0.1 * math.log(p))) for p, w in zip(said[state], heard, strict=True)
        ]
        assert rows[state] == pytest.approx([p / sum(raised) for p in raised])
    for number, word in enumerate(heard):
        stands = [said[state][number] / sum(row[number] for row in said.values()) for state in said]
        raised = [p * math.exp(0.1 * (v - 0.1 * math.log(p))) for p, v in zip(heard[word], stands, strict=True)]
        assert rows[word] == pytest.approx([p / sum(raised) for p in raised])


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
