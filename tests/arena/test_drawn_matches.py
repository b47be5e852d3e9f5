"""Matches that are drawn from a line-up's tree: the same episodes as the referee's, and which matches they are."""

from __future__ import annotations

from collections import deque
from functools import partial

import pytest

from arena import drawn_matches
from arena.drawn_matches import Lineup, Lineups, draws
from arena.records import DrawnChoice, Episode, MatchRequest, Reply, TokenTrace
from arena.samplers.scripted import Always, Equilibrium, Random
from arena.scheduler import play, rounds
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from roles.cards import load_roles
from roles.role import ReplyForm

SHARES = [1.0, 4.0]  # of two replies, added up


class Together(Random):
    """Draws as ``Random`` does, but says that its choices depend on what is asked beside them."""

    alone = False
    sample = Random.sample
    choices = Random.choices


class ByTheReferee(Random):
    """The same player without choices that hold: a ``sample`` of its own."""

    def sample(self, requests):
        return super().sample(requests)


class EquilibriumByTheReferee(Equilibrium):
    def sample(self, requests):
        return super().sample(requests)


def requests_of(game: str, players: str, count: int = 60) -> list[MatchRequest]:
    lineup = tuple(players)
    return [
        MatchRequest(i, game, derive_seed(i, "deal"), derive_seed(i, "sample"), lineup, (True,) * len(lineup))
        for i in range(count)
    ]


def play_with(requests, engines, in_flight=7) -> list[Episode]:
    return play(
        requests,
        roles_of=lambda name: load_roles(make_game(name).spec),
        engine_of=engines.__getitem__,
        make_game=make_game,
        in_flight=in_flight,
    )


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker", "liars_dice", "tic_tac_toe", "connect_four"])
@pytest.mark.parametrize("engine", [Random, Together])
def test_episodes_are_the_referees(game, engine):
    requests = requests_of(game, "ab")
    expected = play_with(requests, dict.fromkeys("ab", ByTheReferee()))
    assert play_with(requests, dict.fromkeys("ab", engine())) == expected
    assert play_with(requests, {"a": engine(), "b": ByTheReferee()}) == expected


def test_an_equilibrium_draws_as_pythons_choices_do():
    requests = requests_of("kuhn_poker", "er", 300)
    drawn = play_with(requests, {"e": Equilibrium(), "r": Random()})
    assert drawn == play_with(requests, {"e": EquilibriumByTheReferee(), "r": ByTheReferee()})


def test_a_tree_that_is_full_begins_anew_and_play_does_not_notice(monkeypatch):
    requests = requests_of("leduc_poker", "ab")
    expected = play_with(requests, dict.fromkeys("ab", Random()))
    monkeypatch.setattr(drawn_matches, "MOST_NODES", 3)
    begin, begun = Lineup._begin, []
    monkeypatch.setattr(Lineup, "_begin", lambda lineup: begun.append(1) or begin(lineup))
    assert play_with(requests, dict.fromkeys("ab", Random())) == expected
    assert len(begun) == 1 + len(requests), "every match takes more than three positions"
    assert play_with(requests, dict.fromkeys("ab", Together())) == expected


def test_matches_that_end_in_one_place_share_their_turns():
    episodes = play_with(requests_of("kuhn_poker", "ab", 400), dict.fromkeys("ab", Random()))
    assert len({id(episode.turns) for episode in episodes}) == len({episode.turns for episode in episodes}) <= 30


def lineup_of(request, engine, roles=None):
    lineups = Lineups(lambda name: roles or load_roles(make_game(name).spec), make_game, lambda _: engine)
    return lineups.of(request)


@pytest.mark.parametrize("alone", [False, True])
def test_matches_that_begin_after_an_update_are_drawn_from_the_new_weights(alone):
    class Changing(Random):
        weights = 0

        def sample(self, requests):
            raise AssertionError("every match is drawn")

        def choices(self, requests):
            return [DrawnChoice([Reply(one.legal[self.weights])]) for one in requests]

    learner, waiting, seen = Changing(), deque(), []
    learner.alone = alone
    engines = {"a": learner, "b": Random()}

    class Feed:
        def __iter__(self):
            return self

        def __next__(self):
            if not waiting:
                raise StopIteration
            return waiting.popleft()

    flow = rounds(
        Feed(),
        roles_of=lambda name: load_roles(make_game(name).spec),
        engine_of=engines.__getitem__,
        make_game=make_game,
        in_flight=4,
    )
    for weights in (0, 1, 0):
        learner.weights, ended = weights, []
        learner.changes += 1
        waiting.extend(requests_of("kuhn_poker", "ab", 20))
        while len(ended) < 20:
            ended += next(flow).values()
        seen.append({turn.action for episode in ended for turn in episode.turns if turn.player == "a"})
    assert seen == [{"pass"}, {"bet"}, {"pass"}]


def test_what_is_not_plain_is_the_referees():
    [request] = requests_of("kuhn_poker", "ab", 1)
    of = partial(lineup_of, engine=Random())
    assert of(request) is not None
    for change in ({"branch": (1,)}, {"prefix": ("pass",)}, {"task": "t"}, {"start": "s"}, {"parent": 3}):
        assert of(request._replace(**change)) is None
    assert of(request._replace(players=("a",))) is None
    assert of(request._replace(trained=(True,))) is None
    assert of(requests_of("simple_negotiation", "ab", 1)[0]) is None
    assert of(requests_of("negotiation", "ab", 1)[0]) is None, "its deals are hidden, so it has no tree"
    assert lineup_of(request, Always("bet")) is None
    free = [role.model_copy(update={"reply": ReplyForm.FREE}) for role in load_roles(make_game("kuhn_poker").spec)]
    assert of(request, roles=free) is None


def test_another_sample_over_the_choices_is_asked():
    engine = Random()
    assert draws(engine)
    assert not draws(ByTheReferee())
    engine.sample = lambda requests: []
    assert not draws(engine)


def test_an_illegal_reply_of_a_masked_role_is_an_error():
    class Wrong(Random):
        sample = Random.sample

        def choices(self, requests):
            return [DrawnChoice([Reply("fly")]) for _ in requests]

    Wrong.sample = lambda self, requests: []
    with pytest.raises(RuntimeError, match=r"answered 'fly'.*does not mask"):
        play_with(requests_of("kuhn_poker", "ab", 1), dict.fromkeys("ab", Wrong()))


def test_choices_are_asked_once_a_position_and_in_the_matches_order():
    asked = []

    class Counting(Together):
        def sample(self, requests):
            raise AssertionError("every match is drawn")

        def choices(self, requests):
            asked.append([request.observation for request in requests])
            return Random.choices(self, requests)

    play_with(requests_of("kuhn_poker", "ab", 200), dict.fromkeys("ab", Counting()), in_flight=200)
    assert [len(set(batch)) for batch in asked] == [3, 6, 3], "by cards; the second seat after a pass and a bet"


class Weighing(Random):
    """Chooses by ``SHARES``, and says twice what each reply consists of."""

    def sample(self, requests):
        raise AssertionError("every match is drawn")

    def choices(self, requests):
        return [
            DrawnChoice([Reply(a, TokenTrace("w", (1, 2, 3), (4, 5), (0.0, 0.0), None)) for a in one.legal], SHARES)
            for one in requests
        ]


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("share", [0.2, 0.6, 1.0])
def test_a_seat_that_explores_draws_that_share_of_its_replies_from_all_alike(monkeypatch, alone, share):
    """The other seat draws as ever, and the log-probs of what is drawn are the policy's."""
    monkeypatch.setattr(Weighing, "alone", alone)
    requests = [one._replace(explore=(0.0, share)) for one in requests_of("kuhn_poker", "ww", 8000)]
    turns = [turn for episode in play_with(requests, {"w": Weighing()}) for turn in episode.turns]
    for seat, expected in ((0, 0.75), (1, 0.75 - 0.25 * share)):
        own = [turn for turn in turns if turn.seat == seat]
        assert sum(turn.action == "bet" for turn in own) / len(own) == pytest.approx(expected, abs=0.02)
    assert {turn.trace.logprobs for turn in turns} == {(0.0, 0.0)}
    still = [one._replace(explore=(0.0, 0.0)) for one in requests]
    without = play_with(requests_of("kuhn_poker", "ww", 8000), {"w": Weighing()})
    assert [one.turns for one in play_with(still, {"w": Weighing()})] == [one.turns for one in without]


def test_the_referee_does_not_explore_and_says_so():
    [request] = requests_of("simple_negotiation", "ab", 1)
    with pytest.raises(UsageError, match=r"matchmaking\.explore is for .* of simple_negotiation between a, b are"):
        play_with([request._replace(explore=(0.5, 0.0))], dict.fromkeys("ab", Random()))


@pytest.mark.parametrize("alone", [False, True])
def test_a_choice_is_drawn_by_its_shares_and_all_of_its_tokens_are_counted(monkeypatch, alone):
    """Shares need not come to one, as sums of rounded ones do not; an engine that speaks twice counts both replies."""
    monkeypatch.setattr(Weighing, "alone", alone)
    engine = Weighing()
    episodes = play_with(requests_of("kuhn_poker", "ww", 400), {"w": engine})
    turns = [turn for episode in episodes for turn in episode.turns]
    assert sum(turn.action == "bet" for turn in turns) / len(turns) == pytest.approx(0.75, abs=0.06)
    assert engine.tokens == 5 * len(turns) > 5 * 800 - 1


def test_trees_are_forgotten_as_soon_as_one_of_the_engines_has_changed():
    engines = {"a": Random(), "b": Random()}
    engines["a"].changes = 5
    lineups = Lineups(lambda name: load_roles(make_game(name).spec), make_game, engines.__getitem__)
    [request] = requests_of("kuhn_poker", "ab", 1)
    first = lineups.of(request)
    lineups.forget_old()
    assert lineups.of(request) is first
    engines["b"].changes += 1
    lineups.forget_old()
    assert lineups.of(request) is not first


@pytest.mark.parametrize("change", [{"tools": ("add",)}, {"probes": ("belief",)}])
def test_a_role_that_does_more_than_reply_is_the_referees(change):
    [request] = requests_of("kuhn_poker", "ab", 1)
    roles = [role.model_copy(update=change) for role in load_roles(make_game("kuhn_poker").spec)]
    assert lineup_of(request, Random(), roles=roles) is None
