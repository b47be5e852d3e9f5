"""Co-play: partners learn with themselves or with each other, and main policies meet each of them equally often."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.matches.draws import draw, opponents, pool_of
from support.processes.runs import TINY

from games.common.errors import UsageError
from league.config import RunConfig
from league.config.checks.config import check_config
from league.config.load import load, run_roles
from league.config.matchmaking import ExploitersConfig, MatchmakingConfig
from league.population.matchmaking import Member, OpponentPool
from league.population.matchmaking.rules import partners
from league.population.results.match_store import STORE_FILE, MatchStore
from league.population.storage.population import Population
from league.training.loop.session import train
from league.training.snapshots.exploiter_cycle import resets_after

PARTNERS = [
    *(Member(f"ann-{step}", "ann", "partner") for step in range(3)),
    Member("bob-0", "bob", "partner"),
]
CO_PLAY = MatchmakingConfig(self_play=0.5, fictitious=0.0, partners=0.5)


def test_each_partner_is_met_equally_often_and_each_of_its_snapshots() -> None:
    """Two partners, with three snapshots and one: 1/2 · 1/3 and 1/2 · 1; main's own snapshots are no partners."""
    names = ["main-0", *(member.id for member in PARTNERS)]
    policies = ["main", *(member.policy for member in PARTNERS)]
    pool = pool_of([0.5] * 5, ["main", *["partner"] * 4])  # type: ignore[list-item]
    pool = OpponentPool(names, pool.learners, "toy", pool.pair_record, pool.config, pool.kinds, policies=policies)
    assert partners(pool) == pytest.approx(np.array([0, 1 / 6, 1 / 6, 1 / 6, 1 / 2]))
    met = opponents(draw(3, config=CO_PLAY.model_copy(update={"opponents": 6}), others=PARTNERS, matches=240))
    assert met == {"ann-0": 20, "ann-1": 20, "ann-2": 20, "bob-0": 60}


def test_without_partners_their_share_is_self_play() -> None:
    assert {match.rule for match in draw(3, config=CO_PLAY, matches=40)} == {"self_play"}


def test_a_partner_takes_all_seats_and_learns_in_all_of_them() -> None:
    settings = ExploitersConfig(share=0.25)
    matches = draw(3, config=CO_PLAY, exploiters=settings, exploiting={"ann": "partner"}, others=PARTNERS, matches=80)
    by_rule = Counter(match.rule for match in matches)
    assert by_rule == {"partner": 20, "partners": 30, "self_play": 30}
    alone = [match for match in matches if match.rule == "partner"]
    assert {(match.players, match.trained) for match in alone} == {(("ann", "ann"), (True, True))}
    assert len({match.deal_seed for match in matches}) == 20 + 15 + 30, "no deal is played under two rules"


def test_no_deal_is_played_by_two_partners() -> None:
    """Of 80 matches each of two partners has 20 with itself, each on a deal of its own."""
    both = {"ann": "partner", "bob": "partner"}
    matches = draw(3, config=CO_PLAY, exploiters=ExploitersConfig(share=0.25), exploiting=both, matches=80)
    alone = [match for match in matches if match.rule == "partner"]
    assert Counter(match.players for match in alone) == {("ann", "ann"): 20, ("bob", "bob"): 20}
    assert len({match.deal_seed for match in alone}) == 40


def test_partners_together_meet_each_others_snapshots_never_their_own_and_never_mains() -> None:
    settings = ExploitersConfig(share=0.5, together=0.8)
    matches = draw(3, config=CO_PLAY, exploiters=settings, exploiting={"ann": "partner"}, others=PARTNERS, matches=80)
    of_ann = [match for match in matches if match.rule == "partner"]
    assert Counter(match.players for match in of_ann) == {("ann", "bob-0"): 16, ("bob-0", "ann"): 16, ("ann", "ann"): 8}
    assert all(sum(match.trained) == match.players.count("ann") for match in of_ann)
    only = draw(3, config=CO_PLAY, exploiters=settings, exploiting={"ann": "partner"}, others=PARTNERS[:3], matches=80)
    assert {match.players for match in only if match.rule == "partner"} == {("ann", "ann")}, "there is no other yet"


def test_a_given_player_keeps_its_seat_beside_a_partner() -> None:
    live, judge = ("main", "main", "openai:judge"), frozenset({"openai:judge"})
    matches = draw(live=live, fixed=judge, exploiting={"ann": "partner"}, matches=40)
    of_ann = {(match.players, match.trained) for match in matches if match.rule == "partner"}
    assert of_ann == {(("ann", "ann", "openai:judge"), (True, True, False))}


def test_a_partner_is_never_reset() -> None:
    config = RunConfig(
        games={"kuhn_poker": {}},  # type: ignore[dict-item]
        policies={"ann": {"league_role": "partner"}},  # type: ignore[dict-item]
        exploiters=ExploitersConfig(league_reset=1.0),
    )
    assert not resets_after(config, "ann", 10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"matchmaking": {"partners": 1.0}}, "the run has no partner that can be met"),
        (
            {"matchmaking": {"partners": 1.0}, "policies": {"ann": {"league_role": "partner", "held_out": True}}},
            "the run has no partner that can be met",
        ),
        ({"policies": {"main": {"held_out": True}}}, "policies.main.held_out = true is for partners"),
        (
            {"policies": {"main": {"league_role": "partner"}}},
            "but a role is bound to main. Exploiters and partners take every seat",
        ),
    ],
)
def test_partners_that_cannot_be_are_refused(settings: dict[str, object], message: str) -> None:
    config = RunConfig.model_validate({"games": {"kuhn_poker": {}}, **settings})
    with pytest.raises(UsageError, match=message):
        check_config(config, run_roles(config))


def test_a_run_in_which_a_partner_gets_no_match_does_not_begin(tmp_path) -> None:
    (tmp_path / "config.toml").write_text(TINY + 'policies.ann.league_role = "partner"\nexploiters.share = 0.0\n')
    with pytest.raises(UsageError, match="gives ann no match to learn from"):
        train(load(str(tmp_path / "config.toml")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.thorough
def test_a_run_grows_partners_and_nobody_meets_those_that_are_held_out(tmp_path) -> None:
    """Partners are frozen when main is, before it, so that it can be rated with strangers of its own age."""
    (tmp_path / "config.toml").write_text(
        TINY
        + 'policies = { ann = { league_role = "partner" }, eve = { league_role = "partner", held_out = true } }\n'
        + "matchmaking = { self_play = 0.5, fictitious = 0.2, partners = 0.3 }\nexploiters.together = 0.5\n"
    )
    run = train(load(str(tmp_path / "config.toml")), tmp_path / "run").run_dir
    steps = {name: [s.step for s in Population(run / "population").all(name)] for name in ("main", "ann", "eve")}
    assert steps == {"main": [0, 2, 4, 6], "ann": [2, 4, 6], "eve": [2, 4, 6]}
    lineage = {s.id: (s.parent, str(s.origin)) for s in Population(run / "population").all()}
    assert lineage["ann-000002"] == ("main-000000", "trained")
    assert lineage["ann-000004"] == ("ann-000002", "trained")
    with MatchStore(run / STORE_FILE) as store:
        cells = store.cells("kuhn_poker")
    lineups = {tuple(cells.players[seat] for seat in row) for row in cells.lineup.tolist()}
    assert {("main", "ann-000002"), ("ann", "ann"), ("eve", "eve"), ("eve", "ann-000002")} <= lineups
    learned_with = {pair for pair in lineups if {"main", "ann"} & set(pair)}
    assert not any(player.startswith("eve") for pair in learned_with for player in pair)
    assert {("main-000006", "eve-000006"), ("main-000006", "main-000006")} <= lineups, "rating matches"
