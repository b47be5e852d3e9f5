"""Matches that begin in their middle, with the deal and the actions of a match that was played."""

import json

import pytest

from arena.records import MatchRequest
from arena.replays import episode_from_record, episode_to_record
from arena.samplers.scripted import Always, Random
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from roles.cards import load_roles

ROLES = load_roles(make_game("leduc_poker").spec)


def played(requests, engine=None):
    engine = engine or Random()
    return play(requests, roles_of=lambda _: ROLES, engine_of=lambda _: engine, make_game=make_game)


def whole(index):
    return MatchRequest(index, "leduc_poker", 100 + index, index, ("a", "b"), (True, True))


def test_a_match_goes_on_from_its_middle_with_its_deal():
    """Before its last action, which is then played again, and after it, when there is nothing left to play."""
    for episode in played([whole(index) for index in range(20)]):
        actions = tuple(turn.action for turn in episode.turns)
        for length in (len(actions) - 1, len(actions)):
            [rest] = played([episode.request._replace(prefix=actions[:length])], Always(actions[-1]))
            assert rest.returns == episode.returns
            assert [turn.action for turn in rest.turns] == list(actions[length:])
            assert [turn.observation for turn in rest.turns] == [turn.observation for turn in episode.turns[length:]]


def test_no_prefix_leaves_records_as_they_were_and_one_is_read_back():
    [episode] = played([whole(0)])
    assert "prefix" not in episode_to_record(episode)["request"]
    [rest] = played([whole(0)._replace(prefix=(episode.turns[0].action,))])
    assert episode_from_record(json.loads(json.dumps(episode_to_record(rest)))) == rest


def test_an_action_that_is_not_legal_there_is_refused():
    with pytest.raises(UsageError, match="its action 1 is not legal there"):
        played([whole(0)._replace(prefix=("nonsense",))])
