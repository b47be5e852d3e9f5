"""Referee and scheduler: the order of requests, rewards of turns, costs of forfeits, and independence of all else."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.errors import EngineError
from arena.records import EndReason, MatchRequest, Reply
from arena.samplers.scripted import Equilibrium, Random
from arena.scheduler import play
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import Choices, GameSpec, Utility
from roles.cards import load_roles, with_overrides


class Script:
    """Replies with the given texts, one after another, for any player."""

    def __init__(self, *texts):
        self.texts = list(texts)
        self.requests = []

    def sample(self, requests):
        self.requests += requests
        return [Reply(self.texts.pop(0)) for _ in requests]


class Clumsy:
    """Draws a legal reply or nonsense."""

    def __init__(self, nonsense):
        self.nonsense = nonsense

    def sample(self, requests):
        return [
            Reply("nonsense" if request.rng.random() < self.nonsense else f"[{request.rng.choice(request.legal)}]")
            for request in requests
        ]


def match(game, players, index=0, seed=0):
    seeds = derive_seed(seed, index, "deal"), derive_seed(seed, index, "sample")
    return MatchRequest(index, game, *seeds, tuple(players), (False,) * len(players))


def roles_for(**changes):
    return lambda game: tuple(with_overrides(role, **changes) for role in load_roles(make_game(game).spec))


def run(requests, engines, in_flight=64, make=make_game, **changes):
    return play(
        requests, roles_of=roles_for(**changes), engine_of=engines.__getitem__, make_game=make, in_flight=in_flight
    )


def paid(episode, seat):
    return sum(turn.reward for turn in episode.turns if turn.seat == seat)


def test_a_recorded_game_of_tic_tac_toe():
    engine = Script("1", "4", "2", "5", "3")
    (episode,) = run([match("tic_tac_toe", "ab")], {"a": engine, "b": engine})
    assert episode.returns == (1.0, -1.0)
    assert (episode.end, episode.offender) == (EndReason.FINISHED, None)
    assert [turn.action for turn in episode.turns] == ["1", "4", "2", "5", "3"]
    assert [turn.role for turn in episode.turns] == ["crosses", "noughts", "crosses", "noughts", "crosses"]
    assert [turn.player for turn in episode.turns] == list("ababa")
    assert episode.turns[-1].observation == "X X 3\nO O 6\n7 8 9"
    assert episode.turns[-1].legal == ("3", "6", "7", "8", "9")
    assert [turn.reward for turn in episode.turns] == [0.0, 0.0, 0.0, -1.0, 1.0]


class Toll:
    """Two seats, each acts once, seat 1 first; every move pays, and so does the deal."""

    spec = GameSpec("toll", 2, 1, 2, -9.0, 9.0, Utility.GENERAL_SUM, perfect_information=True, has_chance=False)
    payments = ((1.0, 0.0), (2.0, 5.0), (-4.0, 0.5))

    def reset(self, seed):
        self.moves = 0

    def to_act(self):
        return (1, 0, None)[self.moves]

    def actions(self):
        return Choices(self.legal_actions(), ())

    def legal_actions(self):
        return ("go",)

    def observe(self, seat):
        return f"moves: {self.moves}"

    def apply(self, action):
        self.moves += 1

    def rewards(self):
        return self.payments[self.moves]

    def returns(self):
        return tuple(map(sum, zip(*self.payments[: self.moves + 1], strict=True)))


def test_rewards_from_before_a_seats_first_turn_go_to_its_first_turn():
    engine = Script("go", "go")
    (episode,) = play(
        [match("toll", "ab")],
        roles_of=lambda name: load_roles(Toll.spec),
        engine_of=lambda player: engine,
        make_game=lambda name: Toll(),
        in_flight=1,
    )
    assert [(turn.seat, turn.reward) for turn in episode.turns] == [(1, 5.5), (0, -1.0)]
    assert episode.returns == (-1.0, 5.5)


def test_retries_get_the_reason_and_then_forfeit():
    engine = Script("fold", "[fold]", "[bet]", "[raise]", "hm", "[pass] [bet]")
    (episode,) = run(
        [match("kuhn_poker", "ab")], {"a": engine, "b": engine}, reply="free", on_illegal="retry", retries=2
    )
    assert [(turn.seat, turn.action) for turn in episode.turns] == [
        (0, None), (0, None), (0, "bet"), (1, None), (1, None), (1, None),
    ]  # fmt: skip
    assert [[reply for reply, _ in request.refusals] for request in engine.requests] == [
        [], ["fold"], ["fold", "[fold]"], [], ["[raise]"], ["[raise]", "hm"],
    ]  # fmt: skip
    assert engine.requests[1].refusals[0].reason == "Your reply has no answer in the form [action]. Legal: pass, bet."
    assert engine.requests[2].refusals[1].reason == "Your answer is not a legal action. Legal: pass, bet."
    assert (episode.end, episode.offender, episode.returns) == (EndReason.FORFEIT, 1, (2.0, -2.0))
    assert [turn.reward for turn in episode.turns] == [0.0, 0.0, 2.0, 0.0, 0.0, -2.0]


def test_forfeit_at_once_and_its_price():
    for price, cost in ((None, 2.0), (0.25, 0.25)):
        engine = Script("[check]")
        (episode,) = run([match("kuhn_poker", "ab")], {"a": engine, "b": engine}, reply="free", price=price)
        assert (episode.end, episode.offender, episode.returns) == (EndReason.FORFEIT, 0, (-cost, cost))
        assert [turn.reward for turn in episode.turns] == [-cost]


def test_an_illegal_reply_under_a_mask_is_the_engines_fault():
    engine = Script("fold")
    with pytest.raises(RuntimeError, match="Player a answered 'fold' as first in kuhn_poker"):
        run([match("kuhn_poker", "ab")], {"a": engine, "b": engine})


@settings(deadline=None, max_examples=30)
@given(
    game=st.sampled_from(["kuhn_poker", "kuhn_poker(players=3)", "tic_tac_toe", "leduc_poker", "tiny_hanabi"]),
    rule=st.sampled_from(["forfeit", "retry"]),
    nonsense=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_turns_add_up_to_returns_and_forfeits_keep_the_sum(game, rule, nonsense, seed):
    spec = make_game(game).spec
    players = ["clumsy"] * spec.seats
    requests = [match(game, players, index, seed) for index in range(8)]
    for episode in run(requests, {"clumsy": Clumsy(nonsense)}, reply="free", on_illegal=rule):
        if spec.utility is Utility.ZERO_SUM:
            assert sum(episode.returns) == pytest.approx(0.0, abs=1e-9)
        for seat in {turn.seat for turn in episode.turns}:
            assert paid(episode, seat) == pytest.approx(episode.returns[seat], abs=1e-9)
        assert (episode.end is EndReason.FORFEIT) == (episode.offender is not None)
        if episode.end is EndReason.FORFEIT:
            assert episode.turns[-1].action is None
            assert episode.turns[-1].seat == episode.offender


def test_three_seats_play_in_turn():
    requests = [match("kuhn_poker(players=3)", ["r"] * 3, index) for index in range(200)]
    episodes = run(requests, {"r": Random()})
    for episode in episodes:
        assert [turn.seat for turn in episode.turns][:3] == [0, 1, 2]
        assert sum(episode.returns) == 0.0
        assert [paid(episode, seat) for seat in range(3)] == list(episode.returns)
    assert {turn.role for turn in episodes[0].turns} == {"first", "second", "third"}


@pytest.mark.parametrize("in_flight", [2, 7, 1000])
def test_the_number_in_flight_changes_nothing(in_flight):
    games = ["kuhn_poker", "tic_tac_toe", "kuhn_poker", "leduc_poker"]
    pairs = [("random", "random"), ("clumsy", "random"), ("equilibrium", "clumsy"), ("random", "clumsy")]
    requests = [match(games[i % 4], pairs[i % 4], i) for i in range(60)]
    engines = {"random": Random(), "clumsy": Clumsy(0.2), "equilibrium": Equilibrium()}

    def played(number):
        return run(requests, engines, number, reply="free", on_illegal="retry")

    expected = played(1)
    assert [episode.request for episode in expected] == requests
    assert played(in_flight) == expected


def test_equal_seeds_deal_equal_cards_whoever_plays():
    requests = [match("kuhn_poker", players, 3) for players in (("a", "b"), ("b", "a"))]
    first, second = run(requests, {"a": Random(), "b": Random()})
    assert first.turns[0].observation == second.turns[0].observation


def test_one_call_of_each_engine_a_round_and_games_are_reused():
    calls, made = [], Counter()

    class Counting(Random):
        def sample(self, requests):
            calls.append([request.player for request in requests])
            return super().sample(requests)

    def make(name):
        made[name] += 1
        return make_game(name)

    first, second = Counting(), Counting()
    requests = [match("tic_tac_toe", "abc"[i % 3] + "abc"[(i + 1) % 3], i) for i in range(30)]
    run(requests, {"a": first, "b": first, "c": second}, in_flight=10, make=make)
    assert made == {"tic_tac_toe": 10}
    assert max(map(len, calls)) <= 10
    assert {"a", "b"} <= set(calls[0])


def test_every_episode_is_reported_as_it_ends():
    seen = []
    requests = [match("kuhn_poker", "rr", index) for index in range(20)]
    episodes = play(
        requests,
        roles_of=roles_for(),
        engine_of=lambda player: Random(),
        make_game=make_game,
        in_flight=4,
        on_episode=seen.append,
    )
    assert sorted(seen, key=lambda episode: episode.request[0]) == episodes


class Broken(Random):
    def sample(self, requests):
        raise KeyError("weights")


class Short(Random):
    def sample(self, requests):
        return super().sample(requests)[1:]


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (Broken(), "engine Broken failed on 2 requests for a, b: KeyError"),
        (Short(), "engine Short gave 1 replies to 2"),
    ],
)
def test_a_failing_engine_is_named(engine, message):
    requests = [match("kuhn_poker", "ab"), match("kuhn_poker", "ba", 1)]
    with pytest.raises(EngineError, match=message):
        run(requests, {"a": engine, "b": engine})


def test_a_request_that_does_not_fit_its_game_is_refused():
    with pytest.raises(UsageError, match="kuhn_poker has 2 seats, but match 0 names 3 players"):
        run([match("kuhn_poker", "abc")], dict.fromkeys("abc", Random()))
    with pytest.raises(UsageError, match="in_flight = 0"):
        run([], {}, in_flight=0)
    assert run([], {}) == []
