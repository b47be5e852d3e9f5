"""When exploiters freeze and begin again, and when a main policy is promoted."""

import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from arena.records import EndReason, Episode
from league.config import RunConfig
from league.config.context import run_context
from league.population.results.payoffs import PayoffTable, Result, summarise
from league.population.storage.members import Member
from league.training.snapshots.exploiter_cycle import exploiters_due, resets_after
from league.training.snapshots.gate import estimate_gain, gate_matches, play_until_decided, significantly_positive

KUHN = "kuhn_poker"
MEMBERS = [Member("main-0", "main", "main"), Member("main-5", "main", "main")]


def config(learner, **exploiters):
    policies = {"probe": {"league_role": learner}}
    return RunConfig(games={"kuhn_poker": {}}, policies=policies, exploiters=exploiters)


def due(learner, state, iteration):
    return exploiters_due(run_context(config(learner), Path()), state, MEMBERS, iteration)


def state(rates, frozen_at=0):
    """Return a state in which the probe wins at given rates."""
    table = PayoffTable(live=["main", "probe"])
    table.apply([Result("probe", other, "kuhn_poker", "first", 10, 0.0, 10.0, 10 * x, 1) for other, x in rates.items()])
    return SimpleNamespace(payoffs=table, frozen_at={"probe": frozen_at}, policies={"main": None, "probe": None})


@pytest.mark.parametrize(
    ("rate", "iteration", "freezes"),
    [(0.75, 9, False), (0.75, 10, True), (0.70, 10, False), (0.1, 39, False), (0.1, 40, True), (0.75, 45, True)],
)
def test_a_main_exploiter_freezes_when_it_wins_or_after_a_while(rate, iteration, freezes):
    assert due("main_exploiter", state({"main": rate}), iteration) == (["probe"] if freezes else [])


def test_the_while_begins_when_it_was_last_frozen():
    assert due("main_exploiter", state({"main": 0.1}, 20), 45) == []


@pytest.mark.parametrize(("rates", "freezes"), [((0.8, 0.8), True), ((0.8, 0.6), False), ((0.8,), False)])
def test_a_league_exploiter_must_beat_every_past_player(rates, freezes):
    """A player it never met counts 1/2."""
    known = {member.id: rate for member, rate in zip(MEMBERS, rates, strict=False)}
    assert due("league_exploiter", state(known), 12) == (["probe"] if freezes else [])


def test_a_main_exploiter_always_begins_anew_and_a_league_exploiter_at_its_rate():
    assert all(resets_after(config("main_exploiter"), "probe", i) for i in range(20))
    drawn = [resets_after(config("league_exploiter"), "probe", i) for i in range(2000)]
    assert sum(drawn) / 2000 == pytest.approx(0.25, abs=0.03)


def test_what_was_known_of_a_player_is_forgotten_when_it_begins_anew():
    """Whether it is reset at once or on replaying the results makes no difference."""
    old = [Result("probe", "main", "kuhn_poker", "first", 10, 5.0, 10.0, 8.0, 3)]
    new = [Result("probe", "main", "kuhn_poker", "first", 10, 5.0, 10.0, 2.0, 4)]
    direct, replayed = PayoffTable(["probe", "main"], 0.9), PayoffTable(["probe", "main"], 0.9, {"probe": 3})
    direct.apply(old)
    direct.reset("probe")
    assert direct.pair_record("probe", "main", "kuhn_poker") == (0.5, 0.0)
    for table in (direct, replayed):
        table.apply(old if table is replayed else [])
        table.apply(new)
        assert table.pair_record("probe", "main", "kuhn_poker") == (0.2, 10.0)
    assert direct.to_json() == replayed.to_json()


def test_a_gate_compares_by_deals_what_the_new_weights_gain():
    gated = RunConfig(games={"kuhn_poker": {}}, evaluation={"matches": 30})
    requests = gate_matches(run_context(gated, Path()), "main", "main-5", {"main": "main-5"}, KUHN, 100)
    assert [request.index for request in requests] == list(range(100, 130))
    assert len({request.deal_seed for request in requests}) == 10
    seated = [request.players for request in requests[:3]]
    assert seated == [("main-5", "main-5"), ("main", "main-5"), ("main-5", "main")]

    def ended(request, deal):
        gain = deal % 2  # in odd deals the new weights earn 2 more in either seat
        returns = [1.0, -1.0]
        if "main" in request.players:
            seat = request.players.index("main")
            returns[seat] += 2 * gain
            returns[1 - seat] -= 2 * gain
        return Episode(request, (), tuple(returns), EndReason.FINISHED)

    episodes = [ended(request, number // 3) for number, request in enumerate(requests)]
    gain, error = estimate_gain(episodes, "main", lambda game: 2.0)
    assert gain == pytest.approx(0.5)  # half of the deals gain 2, in units of 2
    assert error == pytest.approx((10 * 0.25 / 9 / 10) ** 0.5)
    assert significantly_positive(gain, error, 0.99)
    assert not significantly_positive(0.0, 0.0, 0.5)
    assert summarise(episodes, 1), "gate matches count as any other"


def test_a_policy_that_a_gate_refused_is_compared_on_other_deals_the_next_time():
    """Else the luck that refused it, or another of its seed's deals, would decide again."""
    gated = run_context(RunConfig(games={"kuhn_poker": {}}, evaluation={"matches": 30}), Path())
    first, second = (gate_matches(gated, "main", "main-5", {"main": "main-5"}, KUHN, index) for index in (100, 500))
    assert not {request.deal_seed for request in first} & {request.deal_seed for request in second}
    assert len({request.sample_seed for request in (*first, *second)}) == 60


@pytest.mark.parametrize(("chance", "most"), [(0.9, 120), (0.1, 120)])
def test_a_gate_that_stops_when_it_is_decided_takes_few_matches_and_is_right(chance, most):
    promoted, played = gated_until(chance, seed=1)
    assert promoted == (chance > 0.5)
    assert played < most


def test_of_equal_policies_such_a_gate_lets_few_through_however_often_it_looks():
    through = sum(gated_until(0.5, seed)[0] for seed in range(60))
    assert through <= 7  # 3 of 60 at a confidence of 95 %; more than 7 happen once in 80 times at worst


def gated_until(chance, seed):
    """Return whether a policy passes that gains 2 on a deal with this chance and else −2, and the matches played."""
    config = RunConfig(games={"kuhn_poker": {}}, evaluation={"matches": 600})
    requests = gate_matches(run_context(config, Path()), "main", "main-5", {"main": "main-5"}, KUHN, seed)
    rng = random.Random(seed)
    better = {deal: rng.random() < chance for deal in dict.fromkeys(request.deal_seed for request in requests)}

    def play(asked):
        gains = [0.0 if "main" not in r.players else 2.0 if better[r.deal_seed] else -2.0 for r in asked]
        signs = [1.0 if r.players[0] == "main" else -1.0 for r in asked]
        return [
            Episode(r, (), (gain * sign, -gain * sign), EndReason.FINISHED)
            for r, gain, sign in zip(asked, gains, signs, strict=True)
        ]

    episodes, promoted = play_until_decided(play, {"kuhn_poker": requests}, "main", lambda game: 4.0, 0.95)
    return promoted, len(episodes)
