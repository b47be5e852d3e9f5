"""What a new snapshot is measured against: the players that are named, in the roles that its policy has."""

from collections import Counter
from pathlib import Path

import pytest

from arena.records import EndReason, Episode, MatchRequest
from arena.samplers.scripted import Equilibrium, Mcts, Random
from games.common.errors import UsageError
from games.registry import make_game
from league.config import RunConfig
from league.config.context import run_context
from league.population.evaluation.rating_matches import rating_matches, score_against
from league.population.players.engines import Engines
from league.population.players.outside import outside_engines
from league.population.results.payoffs import PairRecord, summarise
from league.population.storage.population import Origin, Snapshot

KUHN = make_game("kuhn_poker").spec
THREE = make_game("kuhn_poker(players=3)").spec


def snapshot(policy, step):
    return Snapshot(f"{policy}-{step:06d}", policy, step, None, Origin.TRAINED, {}, Path())


def drawn(spec, policies, snapshot, earlier, pair_record=None, **config):
    settings = RunConfig(games={spec.name: {}}, roles={"policy": policies}, evaluation=config)
    context = run_context(settings, Path())
    return rating_matches(context, snapshot, earlier, 7, **({"pair_record": pair_record} if pair_record else {}))


def test_an_anchor_is_the_player_that_it_is_named_for():
    engines = outside_engines(("random", "equilibrium", "mcts:5"), "evaluation.anchors", Engines())
    assert [type(engine) for engine in engines.values()] == [Random, Equilibrium, Mcts]
    with pytest.raises(UsageError, match="Did you mean equilibrium"):
        outside_engines(("equilibirum",), "evaluation.anchors", Engines())


def test_every_deal_is_rated_in_every_seat_of_a_shared_policy():
    past = [snapshot("main", step) for step in (0, 1, 2)]
    requests = drawn(KUHN, {}, snapshot("main", 3), past, matches=10, opponents=2)
    assert [request.index for request in requests] == list(range(7, 7 + 30))
    assert not any(any(request.trained) for request in requests)
    opponents = Counter(player for request in requests for player in request.players if player != "main-000003")
    assert opponents["random"] == 10
    assert sorted(opponents.values()) == [10, 10, 10]
    seated = {}
    for request in requests:
        seated.setdefault(request.deal_seed, []).append(request.players.index("main-000003"))
    assert all(seats == [0, 1] for seats in seated.values())
    assert len({request.sample_seed for request in requests}) == 30


def test_a_policy_is_rated_in_its_own_roles_against_those_it_meets_there():
    bound = {"kuhn_poker/first": "a", "kuhn_poker/second": "b"}
    past = [snapshot(policy, 0) for policy in "ab"]
    requests = drawn(KUHN, bound, snapshot("b", 1), past, matches=10, opponents=5)
    assert Counter(request.players for request in requests) == {
        ("random", "b-000001"): 10,
        ("a-000000", "b-000001"): 10,
    }
    assert drawn(KUHN, bound, snapshot("c", 1), past, matches=10) == []


def test_a_score_among_three_seats_counts_each_of_the_others():
    """Seat 2 gains 2 where the others lose 1 and 1, then loses 1 with one of them: scores 1 and (0 + 1/2) / 2."""
    request = MatchRequest(0, THREE.name, 0, 0, ("random", "random", "new"), (False,) * 3)
    results = summarise(
        [
            Episode(request, (), (-1.0, -1.0, 2.0), EndReason.FINISHED),
            Episode(request._replace(index=1), (), (2.0, -1.0, -1.0), EndReason.FINISHED),
        ],
        iteration=0,
    )
    assert score_against(results, "new", "random", THREE.name) == pytest.approx((1 + 0.25) / 2)
    assert score_against(results, "new", "equilibrium", THREE.name) is None


def test_a_round_robin_meets_all_that_came_before():
    past = [snapshot("main", step) for step in range(5)]
    requests = drawn(KUHN, {}, snapshot("main", 5), past, matches=2, opponents=1, pairing="round_robin")
    assert Counter(request.players[1] for request in requests if request.players[0] == "main-000005") == {
        "random": 1,
        **{f"main-{step:06d}": 1 for step in range(5)},
    }


def test_the_most_informative_pairs_are_the_close_ones_that_have_met_least():
    """Of three snapshots that met, two are level after few matches, and one is surely beaten."""
    past = [snapshot("main", step) for step in range(3)]
    shown = {
        ("main-000001", "main-000000"): PairRecord(0.95, 200.0),
        ("main-000002", "main-000000"): PairRecord(0.95, 200.0),
    }
    shown[("main-000002", "main-000001")] = PairRecord(0.5, 4.0)
    new = snapshot("main", 3)

    def pair_record(player, opponent, game):
        return shown.get((player, opponent), PairRecord(0.95, 200.0))  # the new one beats everybody

    requests = drawn(KUHN, {}, new, past, matches=4, opponents=1, pairing="informative", pair_record=pair_record)
    pairs = {frozenset(request.players) for request in requests}
    assert pairs == {frozenset({"main-000003", "random"}), frozenset({"main-000002", "main-000001"})}
    assert len({request.sample_seed for request in requests}) == len(requests) == 8
