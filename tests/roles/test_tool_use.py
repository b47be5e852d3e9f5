"""Tools: what a call may look like, what goes wrong is told in words, limits and timeouts hold."""

import copy
import sys
import threading
import time

import pytest

from arena.records import EndReason, MatchRequest, Reply
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.common.errors import UsageError
from games.spec import Choices, GameSpec, Utility
from roles.cards import load_roles
from roles.prompts import system_text

CARD = """
game = "desk"

[[role]]
name = "clerk"
seat = 0
system = "Work."
prompt = "{observation}"
reply = "free"
conduct = {on_illegal = "retry", retries = 1}
tools = [
    {name = "add", description = "adds.", parameters = {a = "int", b = "int"}, per_turn = 3, per_match = 5},
    {name = "echo", description = "says it again.", parameters = {text = "str"}, per_match = 9, max_output = 10},
    {name = "crash", description = "fails.", per_match = 9},
    {name = "sleep", description = "waits.", parameters = {seconds = "float"}, per_match = 9, timeout = 0.25},
    {name = "quit", description = "leaves."},
    {name = "number", description = "returns no text."},
    {name = "late", description = "has a time limit of its own."},
    {name = "absent", description = "is no tool of the game."},
]
"""


class ReplyQueue:
    """One seat says go twice; it observes all that its tools told it."""

    spec = GameSpec("desk", 1, 1, 2, -1.0, 0.0, Utility.GENERAL_SUM, False, has_chance=False)

    def reset(self, seed):
        self.moves, self.lines = 0, []

    def to_act(self):
        return 0 if self.moves < 2 else None

    def actions(self):
        return Choices(self.legal_actions(), ())

    def legal_actions(self):
        return ("go",)

    def observe(self, seat):
        return "\n".join([f"move {self.moves}", *self.lines])

    def apply(self, action):
        self.moves += 1

    def rewards(self):
        return (0.0,)

    def returns(self):
        return (0.0,)

    def copy(self):
        return copy.deepcopy(self)

    def tools(self):
        return {"add": self.add, "echo": lambda text: text, "crash": self.crash, "sleep": self.sleep, **OTHERS}

    def add(self, a, b):
        return str(a + b)

    def crash(self):
        raise KeyError("nothing here")

    def sleep(self, seconds):
        time.sleep(seconds)
        return "slept"

    def legal_calls(self):
        return ("add(1, 2)", 'echo("hm")')

    def record_call(self, call, output):
        self.lines.append(f"{call} -> {output}")


def late():
    raise TimeoutError("timed out")


OTHERS = {"quit": sys.exit, "number": lambda: 3, "late": late}


class Script:
    """Gives the replies one after another."""

    def __init__(self, replies):
        self.replies, self.asked = list(replies), []

    def sample(self, requests):
        self.asked += requests
        return [Reply(self.replies.pop(0)) for _ in requests]


@pytest.fixture
def clerk(tmp_path):
    (tmp_path / "desk.toml").write_text(CARD)
    return load_roles(ReplyQueue.spec, tmp_path)


def played(roles, engine):
    (episode,) = play(
        [MatchRequest(0, "desk", 1, 2, ("a",), (True,))],
        roles_of=lambda _: roles,
        engine_of=lambda _: engine,
        make_game=lambda _: ReplyQueue(),
        in_flight=1,
    )
    return episode


def told(roles, call):
    """Return what a call is told."""
    engine = Script([f"[{call}]", "[go]", "[go]"])
    episode = played(roles, engine)
    assert [turn.action for turn in episode.turns] == [call, "go", "go"]
    assert episode.turns[0].tool == call.partition("(")[0]
    assert [turn.tool for turn in episode.turns[1:]] == ["", ""]
    return engine.asked[1].observation.removeprefix(f"move 0\n{call} -> ")


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ("add(1, 2)", "3"),
        ("add(b=2, a=1)", "3"),
        ("add(1, b=2)", "3"),
        ('echo("a (b) c")', "a (b) c"),
        ('echo("twelve chars")', "twelve ch…"),
        ("add(1)", "b is missing. Call it as add(a: int, b: int)."),
        ("add(1, 2, 3)", "add takes 2 values, not 3. Call it as add(a: int, b: int)."),
        ("add(1, 2, a=3)", "a is given twice. Call it as add(a: int, b: int)."),
        ("add(1, True)", "b is not of type int. Call it as add(a: int, b: int)."),
        ('add(1, "2")', "b is not of type int. Call it as add(a: int, b: int)."),
        ("add(1, b=2, c=3)", "add has no parameter c. Call it as add(a: int, b: int)."),
        ("add(1, len('ab'))", "This call cannot be read: it takes plain values only. Call it as add(a: int, b: int)."),
        ("add(1,", "This call cannot be read: it takes plain values only. Call it as add(a: int, b: int)."),
        ("add(**{'a': 1})", "This call cannot be read: it takes plain values only. Call it as add(a: int, b: int)."),
        ("subtract(1, 2)", "There is no tool named subtract. Yours: add, echo, crash, sleep, quit, number, late."),
        ("absent()", "There is no tool named absent. Yours: add, echo, crash, sleep, quit, number, late."),
        ("crash()", "crash failed: KeyError: 'nothing here'"),
        ("quit()", "quit failed: SystemExit: "),
        ("number()", "number failed: it returned int, not text."),
        ("late()", "late failed: TimeoutError: timed out"),
        ("sleep(0.0)", "slept"),
    ],
)
def test_a_call_is_told_its_output_or_what_is_wrong_with_it(clerk, call, output):
    assert told(clerk, call) == output


def test_a_call_that_takes_too_long_is_given_up(clerk):
    started = time.perf_counter()
    assert told(clerk, "sleep(9.0)") == "sleep gave no answer within 0.25 seconds."
    assert time.perf_counter() - started < 9.0  # which it would have slept
    assert told(clerk, "sleep(0.0)") == "slept"  # the next call does not wait for it


def test_a_call_of_a_quick_tool_that_is_given_up_leaves_no_thread(tmp_path):
    (tmp_path / "desk.toml").write_text(CARD.replace("timeout = 0.25", "timeout = 0.25, quick = true"))
    before = threading.enumerate()
    assert told(load_roles(ReplyQueue.spec, tmp_path), "sleep(60.0)") == "sleep gave no answer within 0.25 seconds."
    assert threading.enumerate() == before


def test_a_call_that_is_given_up_in_a_sleep_does_not_hold_the_process(clerk):
    before = threading.enumerate()
    told(clerk, "sleep(0.6)")
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert all(thread.daemon for thread in left)
    for thread in left:
        thread.join(60.0)
    assert threading.enumerate() == before


def test_every_tool_has_a_time_limit(clerk):
    assert {tool.name: tool.timeout for tool in clerk[0].tools} == {
        "add": 10.0, "echo": 10.0, "crash": 10.0, "sleep": 0.25, "quit": 10.0, "number": 10.0, "late": 10.0,
        "absent": 10.0,
    }  # fmt: skip


def test_one_call_too_many_is_told_and_the_next_is_an_illegal_reply(clerk):
    calls = [f"[add(1, {number})]" for number in range(6)]
    episode = played(clerk, engine := Script([*calls, "[go]", "[go]"]))
    assert [turn.tool for turn in episode.turns] == ["add"] * 4 + ["", ""]
    assert [turn.action is None for turn in episode.turns] == [False] * 4 + [True, True]
    assert "add(1, 3) -> No call of add is left: 3 a turn and 5 a match at most." in engine.asked[4].observation
    assert (episode.end, episode.offender) == (EndReason.FORFEIT, 0)
    again = played(clerk, engine := Script([*calls[:3], "[go]", *calls[:3], "[go]"]))
    assert again.end is EndReason.FINISHED
    lines = engine.asked[-1].observation.splitlines()
    assert lines[-3:] == [
        "add(1, 0) -> 1", "add(1, 1) -> 2", "add(1, 2) -> No call of add is left: 3 a turn and 5 a match at most.",
    ]  # fmt: skip


def test_unknown_tools_are_told_once_a_turn_whatever_their_names(clerk):
    episode = played(clerk, Script(["[one(1)]", "[two(2)]", "[go]", "[three(3)]", "[go]"]))
    assert [turn.tool for turn in episode.turns] == ["one", "", "", "three", ""]
    assert [turn.action for turn in episode.turns] == ["one(1)", None, "go", "three(3)", "go"]


def test_no_role_without_tools_can_call_any(clerk):
    (plain,) = load_roles(ReplyQueue.spec)
    engine = Script(["add(1, 2)"])
    with pytest.raises(RuntimeError, match="answered 'add\\(1, 2\\)' as first"):
        played((plain,), engine)
    assert engine.asked[0].legal == ("go",)


def test_a_chosen_reply_may_be_an_offered_call_as_long_as_any_is_left(tmp_path):
    (tmp_path / "desk.toml").write_text(
        CARD.replace('"free"', '"choice"')
        .replace('on_illegal = "retry", ', "")
        .replace("per_match = 9", "per_match = 1")
    )
    roles = load_roles(ReplyQueue.spec, tmp_path)
    engine = Script(['echo("hm")', "add(1, 2)", "add(1, 2)", "add(1, 2)", "go", "add(1, 2)", "add(1, 2)", "go"])
    episode = played(roles, engine)
    both, adds = ("go", "add(1, 2)", 'echo("hm")'), ("go", "add(1, 2)")
    assert [turn.legal for turn in episode.turns] == [both, adds, adds, adds, ("go",), adds, adds, ("go",)]
    assert episode.end is EndReason.FINISHED
    assert played(roles, Random()).end is EndReason.FINISHED


def test_tools_are_told_to_roles_that_write_freely(clerk):
    assert "Instead of an action you may call [add(a: int, b: int)]: adds." in system_text(clerk[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("per_match = 5", "per_match = 0"),
            "role 'clerk': tools.add.per_match = 0: it should be greater than or equal to 1",
        ),
        (
            ("timeout = 0.25", "timeout = 0"),
            r"tools.sleep.timeout = 0: it should be greater than 0. \(seconds a call may take",
        ),
        (('a = "int"', 'a = "list"'), "tool 'add': parameter a = 'list' is not one of str, int, float, bool"),
        (("per_turn", "per_tum"), "There is no key named 'tools.add.per_tum'. Did you mean tools.add.per_turn"),
        (('name = "echo"', 'name = "add"'), "two tools have the same name"),
        (('name = "echo"', 'name = "say it"'), "a tool's name is one word, such as \"search\", not 'say it'"),
        (('name = "echo", ', ""), "The key 'tools.1.name' is missing"),
        (("per_turn = 3", "per_turn = true"), "tools.add.per_turn = True: it should be a valid integer"),
        (("timeout = 0.25", "timeout = 1e9"), "tools.sleep.timeout = 1000000000.0: it should be less than or equal to"),
        (("timeout = 0.25", "timeout = inf"), "tools.sleep.timeout = inf: it should be a finite number"),
        (('{text = "str"}', "{text = 3}"), "tool 'echo': parameter text = 3 is not one of str, int, float, bool"),
        (('{text = "str"}', '{"a b" = "str"}'), "tool 'echo': parameter a b = 'str' is not one of"),
        (('{text = "str"}', '["text"]'), r"tool 'echo': parameters = \['text'\] is not a table of types by name"),
        (("tools = [", 'tools = ["add",'), "tools.0 = 'add': it should be a table of keys"),
        (("max_output = 10", 'max_output = "10"'), "tools.echo.max_output = '10': it should be a valid integer"),
    ],
)
def test_a_card_that_breaks_a_rule_is_refused(tmp_path, change, message):
    (tmp_path / "desk.toml").write_text(CARD.replace(*change))
    with pytest.raises(UsageError, match=message):
        load_roles(ReplyQueue.spec, tmp_path)
