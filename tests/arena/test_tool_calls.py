"""Calls of tools wait alongside all other play: side by side, within limits, in any order of their ends."""

import threading
import time
from concurrent.futures import Future

import pytest
from support.matches.kuhn import kuhn_matches, roles_for

from arena.errors import EngineError, ServerError
from arena.records import MatchRequest, Reply
from arena.replays import episode_from_record, episode_to_record
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.registry import make_game
from games.spec import Choices, GameSpec, Utility
from roles.cards import load_roles

SPEC = GameSpec("desk", 1, 1, 9, -1.0, 0.0, Utility.GENERAL_SUM, False, has_chance=True)
CARD = """
game = "desk"
[[role]]
name = "clerk"
seat = 0
system = "Work."
prompt = "{{observation}}"
reply = "free"
conduct = {{on_illegal = "forfeit"}}
tools = [{{name = "ask", description = "asks.", parameters = {{number = "int"}}, per_match = 9, {limits}}}]
"""


class Desk:
    """One seat, two moves; ``ask`` waits as long as it is told to."""

    spec = SPEC

    def __init__(self, ask):
        self._ask = ask

    def reset(self, seed):
        self.seed, self.moves, self.lines = seed, 0, []

    def to_act(self):
        return 0 if self.moves < 2 else None

    def actions(self):
        return Choices(("go",), (0,))

    def observe(self, seat):
        return "\n".join([f"{self.seed}", *self.lines])

    def apply(self, action):
        self.moves += 1

    def rewards(self):
        return (0.0,)

    returns = rewards

    def tools(self):
        return {"ask": lambda number: self._ask(self.seed, number)}

    def legal_calls(self):
        return ()

    def record_call(self, call, output):
        self.lines.append(output)


class Clerk:
    """Calls the tool as often as ``calls`` says for a match, and continues; records how many it is asked at once."""

    def __init__(self, calls):
        self._calls = calls

    def sample(self, requests):
        return [Reply(self._reply(request.observation.split("\n"))) for request in requests]

    def _reply(self, lines):
        made = len(lines) - 1
        return f"[ask({made})]" if made < self._calls(int(lines[0])) else "[go]"


def desks(tmp_path, ask, calls=lambda seed: 1, matches=32, in_flight=32, limits="timeout = 5.0", on_episode=None):
    (tmp_path / "desk.toml").write_text(CARD.format(limits=limits))
    roles = load_roles(SPEC, tmp_path)
    clerk = Clerk(calls)
    return play(
        [MatchRequest(number, "desk", number, 2, ("a",), (True,)) for number in range(matches)],
        roles_of=lambda _: roles,
        engine_of=lambda _: clerk,
        make_game=lambda _: Desk(ask),
        in_flight=in_flight,
        on_episode=on_episode,
    )


def test_calls_of_many_matches_run_side_by_side(tmp_path):
    first = threading.Barrier(32)

    def ask(seed, number):
        if number == 0:
            first.wait(60.0)  # until every match's first call is under way
        return f"{seed}.{number}"

    episodes = desks(tmp_path, ask, calls=lambda seed: 2 if seed < 4 else 1, limits="timeout = 60.0")
    assert [episode.turns[1].observation for episode in episodes] == [f"{n}\n{n}.0" for n in range(32)]


def test_the_order_in_which_calls_end_changes_nothing(tmp_path):
    def ask(delay):
        def wait(seed, number):
            time.sleep(delay(seed, number))
            return f"{seed}.{number}"

        return wait

    expected = desks(tmp_path, ask(lambda seed, number: 0.0), lambda seed: seed % 3, limits="quick = true")
    for delay in (lambda seed, number: 0.001 * seed, lambda seed, number: 0.02 / (1 + seed + number)):
        for in_flight in (1, 5, 32):
            assert desks(tmp_path, ask(delay), lambda seed: seed % 3, in_flight=in_flight) == expected


def test_a_tool_that_hangs_costs_its_own_match_only(tmp_path):
    """Its call ends when all others have ended, ten calls each, with half as many places as matches."""
    release, ended = threading.Event(), []

    def ask(seed, number):
        if seed == 7:
            release.wait(60.0)
        return "told"

    def on_episode(episode):
        ended.append(episode.request.index)
        if len(ended) == 31:
            release.set()

    desks(tmp_path, ask, lambda seed: 10, in_flight=16, limits="timeout = 60.0", on_episode=on_episode)
    assert release.is_set()
    assert ended[-1] == 7


def test_a_call_that_hangs_is_told_so_and_the_match_goes_on(tmp_path):
    release = threading.Event()

    def ask(seed, number):
        if seed == 1:
            release.wait(60.0)
        return "told"

    episodes = desks(tmp_path, ask, matches=3, limits="timeout = 0.5")
    outputs = [episode.turns[1].observation.split("\n")[1] for episode in episodes]
    assert outputs == ["told", "ask gave no answer within 0.5 seconds.", "told"]
    release.set()


def test_a_call_that_spins_is_interrupted(tmp_path):
    def ask(seed, number):
        while True:
            pass

    before = set(threading.enumerate())
    assert "no answer" in desks(tmp_path, ask, matches=1, limits="timeout = 0.05")[0].turns[1].observation
    deadline = time.perf_counter() + 60.0
    while set(threading.enumerate()) - before and time.perf_counter() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


def test_no_more_calls_run_at_once_than_the_card_allows_and_all_threads_end(tmp_path):
    lock, first, now, most, before = threading.Lock(), threading.Barrier(3), 0, 0, threading.enumerate()

    def ask(seed, number):
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        if seed < 3:
            first.wait(60.0)
        with lock:
            now -= 1
        return "told"

    desks(tmp_path, ask, limits="in_flight = 3, timeout = 60.0")
    assert most == 3
    assert threading.enumerate() == before


@pytest.mark.parametrize(("retries", "output"), [(2, "told"), (1, "ask failed: OSError: once more")])
def test_a_call_that_fails_is_made_again(tmp_path, retries, output):
    made = []

    def ask(seed, number):
        made.append(number)
        if len(made) < 3:
            raise OSError("once more")
        return "told"

    (episode,) = desks(tmp_path, ask, matches=1, limits=f"retries = {retries}")
    assert episode.turns[1].observation == f"0\n{output}"
    assert len(made) == retries + 1


def test_matches_that_wait_for_a_tool_hold_no_place(tmp_path):
    """With two places, four matches begin: two wait for their tools, and the other two still play."""
    waiting, peak, first = [], [], threading.Barrier(4)

    def ask(seed, number):
        waiting.append(seed)
        if seed < 4:
            first.wait(60.0)
        peak.append(len(waiting))
        waiting.remove(seed)
        return "told"

    desks(tmp_path, ask, matches=12, in_flight=2)
    assert max(peak) == 4


class Flaky:
    """Answers as ``Random`` does, and fails on some requests of a match."""

    def __init__(self, fails, error=None):
        self.fails, self.error, self.asked = fails, error or ConnectionError("reset"), 0

    def submit(self, request):
        self.asked += 1
        reply = Future()
        if self.fails(self.asked):
            reply.set_exception(self.error)
        else:
            reply.set_result(Random().sample([request])[0])
        return reply


def kuhn(engine, matches=20, in_flight=4):
    return play(
        kuhn_matches(matches),
        roles_of=lambda _: roles_for(),
        engine_of=lambda _: engine,
        make_game=make_game,
        in_flight=in_flight,
    )


def test_a_match_that_fails_begins_again_and_comes_out_the_same():
    expected = kuhn(Flaky(lambda asked: False))
    episodes = kuhn(Flaky(lambda asked: asked % 7 == 3))
    failed = [episode.failed for episode in episodes]
    assert [episode._replace(failed=()) for episode in episodes] == expected
    assert set(sum(failed, ())) == {"kuhn_poker/first", "kuhn_poker/second"}
    assert all(episode_from_record(episode_to_record(episode)) == episode for episode in episodes)


def test_a_match_that_fails_three_times_is_reported_by_role():
    with pytest.raises(
        EngineError, match=r"ConnectionError: reset Match 0 was started 3 times .* \(3 for kuhn_poker/fi"
    ):
        kuhn(Flaky(lambda asked: True))


def test_what_a_server_refuses_is_not_asked_again():
    flaky = Flaky(lambda asked: True, ServerError("no such model", 404))
    with pytest.raises(EngineError, match=r"no such model$"):
        kuhn(flaky, in_flight=1)
    assert flaky.asked == 1
