"""Slow players and games that are played elsewhere wait alongside all other play, within limits."""

import threading
from dataclasses import replace

import pytest
from support.matches.kuhn import FREE, kuhn_matches, roles_for

from arena.errors import EngineError
from arena.records import EndReason
from arena.samplers.beside import Beside
from arena.samplers.scripted import Random
from arena.scheduler import play
from arena.tool_calls import CallLimits
from games.common import plugins
from games.common.errors import UsageError
from games.registry import make_game
from league.population.players.scripted import register, scripted_player

LIMITS = CallLimits("slow", timeout=1.0, in_flight=64)


class Slow(Random):
    """Answers as ``Random`` does, the first requests together; some, by number, hang until it is told."""

    def __init__(self, first=1, hangs=()):
        self.first, self.hangs, self.asked, self.together = threading.Barrier(first), hangs, 0, 0
        self.release, self._lock, self._under_way = threading.Event(), threading.Lock(), 0

    def sample(self, requests):
        with self._lock:
            self.asked, self._under_way = self.asked + 1, self._under_way + 1
            self.together, number = max(self.together, self._under_way), self.asked
        if number in self.hangs:
            self.release.wait(60.0)
        if number <= self.first.parties:
            self.first.wait(60.0)
        replies = super().sample(requests)
        with self._lock:
            self._under_way -= 1
        return replies


def kuhn(engine, matches=32, in_flight=64, game=lambda: make_game("kuhn_poker"), **form):
    return play(
        kuhn_matches(matches),
        roles_of=lambda _: roles_for(**form),
        engine_of=lambda _: engine,
        make_game=lambda _: game(),
        in_flight=in_flight,
    )


def test_replies_are_those_of_the_player_and_come_side_by_side():
    expected, slow = kuhn(Random()), Slow(32)
    assert kuhn(Beside(slow, LIMITS._replace(timeout=60.0))) == expected
    assert slow.together >= 32
    assert slow.asked == sum(len(episode.turns) for episode in expected)


def test_no_more_calls_run_at_once_than_its_limits_allow():
    slow = Slow(3)
    kuhn(Beside(slow, LIMITS._replace(timeout=60.0, in_flight=3)), matches=12)
    assert slow.together == 3


def test_a_reply_that_does_not_come_is_an_empty_one_and_the_role_forfeits():
    slow = Slow(hangs={5})
    beside = Beside(slow, LIMITS)
    episodes = kuhn(beside, **FREE)
    slow.release.set()
    (hung,) = [episode for episode in episodes if episode.end is EndReason.FORFEIT]
    assert hung.turns[-1].reply == ""
    assert beside.late == 1
    assert not any(episode.failed for episode in episodes)


@pytest.mark.parametrize("retries", [0, 1])
def test_where_replies_are_masked_it_is_asked_again_or_its_match_begins_again(retries):
    slow = Slow(hangs={5})
    episodes = kuhn(Beside(slow, LIMITS._replace(retries=retries)))
    slow.release.set()
    assert [episode._replace(failed=()) for episode in episodes] == kuhn(Random())
    assert sum(len(episode.failed) for episode in episodes) == 1 - retries


def test_a_plugins_player_that_states_limits_is_asked_beside_all_other_play():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "_registered", {}, raising=False)
        patch.setattr(Slow, "limits", {"timeout": 2.0, "in_flight": 8}, raising=False)
        register("sluggish_for_a_test", lambda: Slow())
        player = scripted_player("sluggish_for_a_test")
    assert isinstance(player, Beside)
    assert player._limits == CallLimits("sluggish_for_a_test", 2.0, 8)
    assert type(scripted_player("random")) is Random


def test_what_the_user_did_wrong_is_said_as_it_is():
    class Wrong(Random):
        def sample(self, requests):
            raise UsageError("no such thing")

    with pytest.raises(UsageError, match="no such thing"):
        kuhn(Beside(Wrong(), LIMITS))


LOCK = threading.Lock()


class Elsewhere:
    """Kuhn poker as another system plays it: some of its moves, by number, hang, and the first wait for each other."""

    tree = None

    def __init__(self, moves, hangs=(), release=None, first=None):
        self._game, self._moves, self._hangs, self._release = make_game("kuhn_poker"), moves, hangs, release
        self._first = first or threading.Barrier(1)
        self.spec = replace(self._game.spec, elsewhere=1.0)

    def __getattr__(self, name):
        return getattr(self._game, name)

    def apply(self, action):
        with LOCK:
            self._moves.append(action)
            number = len(self._moves)
        if number in self._hangs:
            self._release.wait(60.0)
        elif number <= self._first.parties:
            self._first.wait(60.0)
        self._game.apply(action)


def test_moves_of_a_game_elsewhere_are_made_side_by_side_and_a_match_whose_move_hangs_begins_again():
    release, moves, expected = threading.Event(), [], kuhn(Random())
    first = threading.Barrier(24)
    episodes = kuhn(Random(), game=lambda: Elsewhere(moves, {30}, release, first))
    release.set()
    assert [episode._replace(failed=()) for episode in episodes] == expected
    assert sum(len(episode.failed) for episode in episodes) == 1


def test_a_game_elsewhere_that_always_fails_is_named():
    class Broken(Elsewhere):
        def apply(self, action):
            raise ConnectionError("gone")

    with pytest.raises(EngineError, match=r"A move of kuhn_poker did not succeed: .*ConnectionError: gone.* 3 times"):
        kuhn(Random(), matches=2, game=lambda: Broken([]))
