"""Roles that are given to players: their seats are kept whatever the rule, and they are trained in no match."""

import pytest
from support.matches.draws import draw

from league.config.matchmaking import ExploitersConfig, MatchmakingConfig
from league.population.matchmaking import Member

JUDGE = frozenset({"openai:judge"})
LIVE = ("main", "main", "openai:judge")
RULES = MatchmakingConfig(self_play=0.4, fictitious=0.3, pfsp=0.3)


def test_a_given_player_keeps_its_seat_under_every_rule_and_gives_no_trajectory():
    matches = draw(live=LIVE, fixed=JUDGE, config=RULES, others=[Member("random", "random", "guest")], matches=400)
    assert {match.rule for match in matches} == {"self_play", "fictitious", "pfsp"}
    assert {(match.players[2], match.trained[2]) for match in matches} == {("openai:judge", False)}
    assert {player for match in matches for player in match.players[:2] if player.startswith("openai")} == set()
    past = [match for match in matches if match.rule != "self_play"]
    assert {match.trained for match in past} == {(True, False, False), (False, True, False)}


def test_the_others_are_drawn_as_if_its_seat_were_not_there():
    beside = draw(live=LIVE, fixed=JUDGE, config=RULES, matches=400)
    alone = draw(live=LIVE[:2], config=RULES, matches=400)
    assert [(m.deal_seed, m.rule, m.trained[:2]) for m in beside] == [(m.deal_seed, m.rule, m.trained) for m in alone]
    assert {player for m in beside for player in m.players[:2]} == {player for m in alone for player in m.players}


def test_where_one_seat_is_left_there_is_no_past_opponent():
    matches = draw(live=("main", "openai:judge"), fixed=JUDGE, config=RULES, matches=40)
    assert {(m.players, m.trained, m.rule) for m in matches} == {(("main", "openai:judge"), (True, False), "self_play")}


@pytest.mark.parametrize("kind", ["main_exploiter", "league_exploiter"])
def test_an_exploiter_takes_every_seat_that_is_left(kind):
    matches = draw(
        live=LIVE, fixed=JUDGE, exploiting={"probe": kind}, exploiters=ExploitersConfig(share=0.5), matches=40
    )
    seated = {match.players.index("probe") for match in matches if match.rule == kind}
    assert seated == {0, 1}
    assert {match.players[2] for match in matches} == {"openai:judge"}
    assert draw(live=LIVE[1:], fixed=JUDGE, exploiting={"probe": kind}, learning=set(), matches=40) == []
