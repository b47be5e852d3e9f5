"""Starts in the middle of a run's own matches: what they hold, that matches continue from them, and who has none."""

from collections import Counter

import pytest

from arena.records import EndReason, MatchRequest, Start
from arena.samplers.scripted import Random
from arena.scheduler import play
from arena.submatches import begin_match
from games.common.errors import UsageError
from games.registry import make_game
from league import load_config, train
from league.training.learning.starts import middles
from league.training.starts.pool import POOL_FILE, StartPool
from roles.cards import load_roles

GAME = "tic_tac_toe"
ROLES = load_roles(make_game(GAME).spec)
TRAINED = (False, True)


def played(count, start=None):
    engine = Random()
    requests = [MatchRequest(n, GAME, n, n, ("past", "main"), TRAINED) for n in range(count)]
    requests = [one.from_start(start) for one in requests] if start else requests
    return play(requests, roles_of=lambda _: ROLES, engine_of=lambda _: engine, make_game=make_game)


def actions(episode):
    return tuple(turn.action for turn in episode.turns)


def test_a_start_is_a_match_up_to_one_of_its_turns():
    episodes = played(200)
    made = middles(episodes, GAME, 200, 3, 7)
    by_deal = {episode.request.deal_seed: actions(episode) for episode in episodes}
    assert Counter(one.start.seed for one in made) == Counter(range(200))  # each match once
    for one in made:
        whole = by_deal[one.start.seed]
        assert one.start.prefix == whole[: len(one.start.prefix)]
        assert (one.size, one.author, one.born) == (len(whole) - len(one.start.prefix), "main", 7)
        game = make_game(GAME)
        begin_match(game, MatchRequest(0, GAME, 0, 0, ("a", "b"), TRAINED).from_start(one.start))
        assert game.to_act() is not None
    lengths = {len(one.start.prefix) for one in made}
    assert min(lengths) == 1
    assert min(one.size for one in made) == 1  # from the first turn to the last but one


def test_as_many_are_made_as_asked_for_and_a_resumed_run_makes_the_same():
    episodes = played(20)
    made = middles(episodes, GAME, 5, 3, 7)
    assert len({one.start.seed for one in made}) == 5
    assert made == middles(episodes, GAME, 5, 3, 7)
    assert made != middles(episodes, GAME, 5, 4, 7) != middles(episodes, GAME, 5, 3, 8)


def test_a_match_from_a_middle_has_its_own_middles():
    start = Start(GAME, 5, prefix=("5", "1"))
    made = middles(played(6, start), GAME, 6, 0, 1)
    assert len(made) == 6
    assert all(one.start.prefix[:2] == start.prefix and len(one.start.prefix) > 2 for one in made)
    assert {one.parent for one in made} == {start.name}


def test_who_has_no_middle():
    [episode] = played(1)
    request = episode.request
    others = [
        episode._replace(end=EndReason.FORFEIT),
        episode._replace(turns=episode.turns[:1]),
        *(
            episode._replace(request=request._replace(**change))
            for change in ({"game": "kuhn_poker"}, {"parent": 4}, {"fork": (4, 2)}, {"trained": (False, False)})
        ),
    ]
    assert middles(others, GAME, 9, 0, 1) == []
    assert len(middles([*others, episode], GAME, 9, 0, 1)) == 1


TINY = f"""
threads = 1
iterations = 2
snapshot_every = 2
games.{GAME} = {{ matches = 8 }}
starts = {{ rule = "uniform", size = 8, middles = 3 }}
model = {{ hidden_size = 16, intermediate_size = 32, vocabulary = 280 }}
cold_start = {{ steps = 1 }}
evaluation = {{ exact = false, matches = 0, anchors = [] }}
"""


@pytest.mark.thorough
def test_a_run_adds_them_and_plays_from_them(tmp_path):
    (tmp_path / "run.toml").write_text(TINY)
    train(load_config(tmp_path / "run.toml", "iterations=6", "starts.unplayed=1.0"), tmp_path / "run")
    with StartPool(tmp_path / "run" / POOL_FILE, reads=True) as pool:
        starts = pool.starts(GAME)
    made = [one for one in starts if one.start.prefix]
    assert Counter(one.born for one in made) == dict.fromkeys(range(1, 7), 3)
    assert any(one.plays for one in made)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("starts.rule='backward'",), "shortens an expert's matches"),
        (("games={relay_arithmetic={matches=8}, propose_sums={matches=8}}",), "open submatches"),
    ],
)
def test_runs_whose_matches_have_none_are_refused(tmp_path, change, sentence):
    (tmp_path / "run.toml").write_text(TINY)
    with pytest.raises(UsageError, match=sentence):
        load_config(tmp_path / "run.toml", *change)
