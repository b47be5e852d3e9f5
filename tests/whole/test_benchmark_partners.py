"""The study of partners: its figures of codes that are known, and conditions that differ in what they are named for."""

import pytest
from support.matches.codes import code_rows

from benchmarks.studies.cooperation.partners import LEWIS, between, conditions


def test_between_is_the_mean_with_the_others_and_not_with_itself():
    """Two codes understand each other in the fixed points of a permutation: of a swap one of three, of a cycle none."""
    identity, swapped, cyclic = (code_rows(LEWIS, code) for code in [(0, 1, 2), (1, 0, 2), (1, 2, 0)])
    assert between([identity, swapped, cyclic]) == pytest.approx([1 / 6, 1 / 3, 1 / 6])
    assert between([identity, identity]) == pytest.approx([1.0, 1.0])


def test_the_strangers_of_all_conditions_are_held_out_and_only_whom_policies_meet_differs():
    compared = conditions("partners")
    alike = ("games", "policies", "objective", "optimizer", "iterations", "snapshot_every", "model", "cold_start")
    first, *others = compared.values()
    for config in others:
        assert all(getattr(config, name) == getattr(first, name) for name in alike)
    assert [(c.matchmaking.partners > 0, c.exploiters.together > 0) for c in compared.values()] == [
        (False, False),
        (True, True),
    ]
    assert all(config.policy("eve").held_out for config in compared.values())
    [newest] = conditions("partners-newest").values()
    assert (newest.matchmaking.keep, newest.exploiters.together) == (1, 0.8)
    assert newest.policy("eve").held_out
    assert all(getattr(newest, name) == getattr(first, name) for name in alike if name != "games")
    assert newest.games[LEWIS].entropy_end > first.games[LEWIS].entropy_end
    [half] = conditions("partners-half").values()
    assert half.exploiters.together == 0.5
    assert half.model_copy(update={"exploiters": newest.exploiters}) == newest
    [exact] = conditions("partners-exact").values()
    alike = ("games", "credit", "values", "objective")
    assert all(getattr(exact, name) == value for name, value in newest if name not in alike)
    assert (exact.values.estimator, exact.values.exact.all_replies) == ("exact", True)
    assert exact.credit == newest.credit.model_copy(update={"rule": "contribution"})
    assert exact.objective == newest.objective.model_copy(update={"normalisation": "prompt_mean"})
    assert exact.games[LEWIS] == newest.games[LEWIS].model_copy(update={"matches": newest.games[LEWIS].matches // 8})
    before, after = conditions("partners-hanabi").values()
    assert before.model_copy(update={"games": after.games}) == after
