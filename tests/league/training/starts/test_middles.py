"""Starts in the middle of a run's own matches: what they hold, that matches continue from them, and who has none."""

import hashlib
from collections import Counter

import pytest

from arena.records import Cast, EndReason, MatchRequest, Start
from arena.samplers.scripted import Random
from arena.scheduler import play
from arena.submatches import attempt_of, begin_match, play_again
from games.common.errors import UsageError
from games.registry import make_game, with_submatches
from games.spec import Attempt, tell_of_submatches
from league import load_config, resume, train
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


OPENING = ["lookup_chain", "propose_sums(tasks=3)"]


def opened(game, requests=None, count=12):
    """Play matches that open others, or requests of them, at random."""
    names = with_submatches([game])
    roles = {name: load_roles(make_game(name).spec) for name in names}
    cast = tuple(Cast(name, ("main",) * len(roles[name]), (True,) * len(roles[name])) for name in names[1:])
    players = ("main",) * len(roles[game]), (True,) * len(roles[game])
    engine = Random()
    if requests is None:
        requests = [MatchRequest(n, game, n, n, *players, cast=cast) for n in range(count)]
    return play(requests, roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game)


@pytest.mark.parametrize("game", OPENING)
def test_a_start_in_a_match_that_opened_others_has_what_they_came_to(game, tmp_path):
    """A match from it begins where the whole one was, and ends with what it pays if the rest is played alike."""
    episodes = opened(game)
    made = middles(episodes, game, 12, 5, 2)
    by_deal = {episode.request.deal_seed: episode for episode in episodes}
    held = 0
    for one in made:
        whole, begun = by_deal[one.start.seed], make_game(game)
        moves = [turn for turn in whole.turns if turn.action is not None and not turn.tool]
        assert begin_match(begun, whole.request.from_start(one.start)) == len(one.start.attempts)
        left = moves[len(one.start.prefix) :]
        assert (begun.to_act(), one.size) == (left[0].seat, len(left))
        assert begun.observe(left[0].seat) == left[0].observation
        ended = [attempt_of(child) for child in whole.children]
        assert [*one.start.attempts] == ended[: len(one.start.attempts)]
        rest = iter(ended[len(one.start.attempts) :])
        for turn in left:
            begun.apply(turn.action)
            if count := len(begun.submatches()):
                tell_of_submatches(begun, [next(rest) for _ in range(count)])
        assert list(rest) == []
        assert begun.observe(0) == _end(whole).observe(0)
        held += bool(one.start.attempts)
    assert held > 2
    with StartPool(tmp_path / "pool") as pool:
        pool.add(made)
    with StartPool(tmp_path / "pool", reads=True) as pool:
        assert {one.start for one in pool.starts(game)} == {one.start for one in made}
    again = middles(opened(game, [whole.request.from_start(one.start) for one in made if one.size > 1]), game, 99, 5, 3)
    assert again
    for one in again:
        before = next(early for early in made if early.name == one.parent).start
        assert one.start.prefix[: len(before.prefix)] == before.prefix
        assert one.start.attempts[: len(before.attempts)] == before.attempts
        begin_match(make_game(game), whole.request.from_start(one.start))


def _end(episode):
    game = make_game(episode.request.game)
    play_again(game, episode)
    return game


def test_other_attempts_are_another_start_and_none_leave_the_name_as_it_was():
    plain = Start("lookup_chain", 3, prefix=("ask",))
    content = '["lookup_chain",3,"",["ask"]]'
    assert plain.name == hashlib.sha256(content.encode()).hexdigest()[:32]
    starts = [plain, *(plain._replace(attempts=(Attempt(text),)) for text in ("1", "2"))]
    assert len({start.name for start in starts}) == 3
    request = MatchRequest(0, "lookup_chain", 0, 0, ("a",), (True,)).from_start(starts[1])
    with pytest.raises(UsageError, match="its deal, task, prefix and attempts are those of"):
        begin_match(make_game("lookup_chain"), request._replace(attempts=(Attempt("2"),)))


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


@pytest.mark.thorough
def test_a_run_of_matches_that_open_others_is_stopped_and_resumed_with_the_same_starts(tmp_path):
    (tmp_path / "run.toml").write_text(TINY.replace(GAME, "lookup_chain"))
    config = load_config(tmp_path / "run.toml", "iterations=5", "snapshot_every=5", "starts.unplayed=1.0")
    pools = []
    for name in ("whole", "stopped"):
        train(config, tmp_path / name, watch=lambda iteration, _, name=name: name == "stopped" and iteration == 3)
        if name == "stopped":
            resume(tmp_path / name)
        with StartPool(tmp_path / name / POOL_FILE, reads=True) as pool:
            pools.append((pool.digest(5), [one for game in pool.games() for one in pool.starts(game)]))
    assert pools[0] == pools[1]
    made = [one for one in pools[0][1] if one.start.prefix]
    born = Counter(one.born for one in made)
    assert set(born) == set(range(1, 6))
    assert max(born.values()) == 3
    assert any(one.plays and one.start.attempts for one in made)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("starts.rule='backward'",), "shortens an expert's matches"),
        (("starts.rule='backward'", "starts.middles=0", "games={lookup_chain={matches=8}}"), "cast for no submatch"),
    ],
)
def test_runs_whose_matches_have_none_are_refused(tmp_path, change, sentence):
    (tmp_path / "run.toml").write_text(TINY)
    with pytest.raises(UsageError, match=sentence):
        load_config(tmp_path / "run.toml", *change)
