"""Judges: agreement with the truth and position bias, as the arithmetic of who judges says."""

import json

import pytest

from arena.records import EndReason, MatchRequest, Reply
from arena.samplers.scripted import Script
from arena.scheduler import play
from games.registry import make_game
from league.cli.dispatch import main
from league.config import RolesConfig
from league.config.load import seat_roles
from league.population.results.judges import judge_metrics, verdicts

TWICE = "debate(boxes=3,asks=2,form=1)"


class HeedsTheFirst:
    """A judge that names the box of whom it is shown first, whatever was opened."""

    def sample(self, requests):
        return [Reply(f"box {request.observation.splitlines()[1].split()[-1][:-1]}") for request in requests]


def judged(name, judge, debaters="poor", matches=60):
    spec = make_game(name).spec
    engines = {"debater": Script(debaters), "judge": judge}
    return play(
        [MatchRequest(i, name, i, i, ("debater", "debater", "judge"), (False,) * 3) for i in range(matches)],
        roles_of=lambda _: seat_roles(RolesConfig(), spec),
        engine_of=engines.__getitem__,
        make_game=make_game,
    )


def test_who_heeds_the_first_speaker_is_right_half_of_the_time_and_leans_fully():
    assert judge_metrics(TWICE, judged(TWICE, HeedsTheFirst())) == {
        f"{TWICE}/judge/agreement": 0.5,
        f"{TWICE}/judge/position_bias": 1.0,
    }


def test_who_reads_the_evidence_is_right_and_does_not_lean():
    assert judge_metrics(TWICE, judged(TWICE, Script("good"))) == {
        f"{TWICE}/judge/agreement": 1.0,
        f"{TWICE}/judge/position_bias": 0.0,
    }


def test_one_box_for_all_is_right_as_often_as_the_prize_is_in_it_and_asked_once_there_is_no_bias():
    """The prize is in the first of four boxes a quarter of the time: 400 matches, two standard errors are 0.043."""
    once = "debate(form=1)"
    metrics = judge_metrics(once, judged(once, Script("poor"), matches=400))
    assert metrics == {f"{once}/judge/agreement": pytest.approx(1 / 4, abs=0.06)}


def test_without_a_judge_or_a_verdict_nothing_is_told():
    assert judge_metrics("kuhn_poker", []) == {}
    assert judge_metrics("debate(boxes=3,judge=0,form=1)", []) == {}
    cut = [episode._replace(end=EndReason.FORFEIT) for episode in judged(TWICE, Script("good"), matches=2)]
    assert verdicts(TWICE, cut) == []


def test_a_match_command_tells_how_good_each_player_judges(capsys):
    assert main(["match", "scripted:good", "scripted:poor", "--game", TWICE, "--matches", "120", "--json"]) == 0
    judges = json.loads(capsys.readouterr().out)["judges"]
    assert (judges["a"]["agreement"], judges["a"]["position_bias"]) == (1.0, 0.0)
    assert judges["a"]["matches"] == judges["b"]["matches"] == 60
    assert judges["b"]["agreement"] == pytest.approx(1 / 3, abs=0.2)
    assert main(["match", "random", "random", "--game", "kuhn_poker", "--matches", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["judges"] == {"a": None, "b": None}
