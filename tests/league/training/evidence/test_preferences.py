"""Rewards by a judge and by agreement: shares by hand, both ways round, and runs that are the same at weight 0."""

import threading
from concurrent.futures import Future
from dataclasses import replace

import pytest
from support.processes.runs import TINY, contents

import league
from arena.errors import ServerError
from arena.records import EndReason, Episode, MatchRequest, Reply, Turn
from arena.samplers.scripted import Script
from arena.scheduler import play
from arena.tool_calls import CallFailed
from games.common.errors import UsageError
from games.registry import make_game
from league.config.context import run_context
from league.config.load import load
from league.population.players.engines import Engines
from league.training.evidence.preferences import JudgedPair, Judges, PlayerJudge, by_forfeit
from league.training.evidence.shaping import agreement, with_shaping
from roles.cards import load_roles
from roles.role import OnIllegal, ReplyForm

THROW = TINY.replace("games.kuhn_poker.matches = 64", "games.throw.matches = 24") + "\nmatchmaking.group_size = 4\n"
FREE = TINY + '\nroles.reply = "free"\n'


def config(tmp_path, *overrides, text=THROW):
    path = tmp_path / "tiny.toml"
    path.write_text(text)
    return load(str(path), ["iterations=2", "snapshot_every=2", "board.time=0", "evaluation.matches=0", *overrides])


def throws(*actions, offenders=()):
    """Return matches of one start."""
    return [
        Episode(
            MatchRequest(i, "throw", 5, i, ("main",), (True,)),
            (Turn(0, "seat 0", "main", "Throw.", (), action, action, 0.0, None),) if i not in offenders else (),
            (0.0,),
            EndReason.FORFEIT if i in offenders else EndReason.FINISHED,
            0 if i in offenders else None,
        )
        for i, action in enumerate(actions)
    ]


def compared(tmp_path, episodes, *overrides):
    settings = config(tmp_path, *overrides)
    with Engines() as engines:
        return Judges(run_context(settings, tmp_path), engines).ask(episodes).read()


def test_a_game_that_judges_gives_the_share_of_the_others(tmp_path):
    found = compared(tmp_path, throws("rock", "rock", "paper", "scissors"), "credit.rule=spo")
    assert [one.preferred for one in found] == [(0.5,), (0.5,), (2 / 3,), (1 / 3,)]


def test_a_seats_share_is_paid_at_its_last_turn_by_its_roles_factor(tmp_path):
    """Seat 1 has turns 0 and 2, seat 0 has 1 and 3; a seat without a turn, or that nobody compared, is paid nothing."""
    overrides = (
        "matchmaking.group_size=4",
        "shaping.preferred.weight=2.0",
        'shaping.preferred.roles={"kuhn_poker/second"=0.5}',
    )
    context = run_context(config(tmp_path, *overrides, text=TINY), tmp_path)
    turns = [Turn(seat, "", "main", "", (), "bet", "bet", 0.0, None) for seat in (1, 0, 1, 0)]
    match = Episode(MatchRequest(0, "kuhn_poker", 5, 0, ("main",) * 2, (True,) * 2), (), (0.0, 0.0), EndReason.FINISHED)
    played = [
        match._replace(turns=tuple(turns), preferred=(0.25, 0.75)),
        match._replace(turns=tuple(turns), preferred=(None, 0.5)),
        match._replace(turns=tuple(turns[:1]), preferred=(1.0, 0.25)),
    ]
    found = [one.shaping for one in with_shaping(context, 1, played)]
    assert found == [(0.0, 0.0, 0.75, 0.5), (0.0, 0.0, 0.5, 0.0), (0.25,)]


def test_who_forfeits_is_preferred_to_nobody(tmp_path):
    found = compared(tmp_path, throws("rock", "paper", "rock", offenders=(2,)), "credit.rule=spo")
    assert [one.preferred for one in found] == [(0.5,), (1.0,), (0.0,)]
    plain, lost = throws("rock", "rock", offenders=(1,))
    assert (by_forfeit(JudgedPair(plain, lost, 0)), by_forfeit(JudgedPair(lost, plain, 0))) == (1.0, 0.0)
    assert (by_forfeit(JudgedPair(lost, lost, 0)), by_forfeit(JudgedPair(plain, plain, 0))) == (0.5, None)


def test_nobody_is_compared_where_nothing_asks_for_it(tmp_path):
    episodes = throws("rock", "paper")
    assert compared(tmp_path, episodes) == episodes


def test_the_share_is_paid_at_the_last_turn_and_recorded(tmp_path):
    settings = config(tmp_path, "shaping.preferred.weight=0.5")
    with Engines() as engines:
        context = run_context(settings, tmp_path)
        found = with_shaping(context, 1, Judges(context, engines).ask(throws("rock", "paper")).read())
    assert [one.shaping for one in found] == [(0.0,), (0.5,)]
    assert [one.returns for one in found] == [(0.0,), (0.0,)]


class Leaning:
    """A judge that likes paper, and what is shown first."""

    def __init__(self):
        self.asked = []

    def beliefs(self, requests):
        self.asked += [request.observation for request in requests]
        return [
            (0.9, 0.1) if "paper" in request.observation.partition("second:")[0] else (0.4, 0.6) for request in requests
        ]


def test_a_player_that_judges_is_asked_both_ways_round(monkeypatch, tmp_path):
    with Engines() as engines:
        judge = PlayerJudge("random", "throw", "Which?", engines)
    leaning = Leaning()
    object.__setattr__(judge._player, "engine", leaning)
    rock, paper, again = throws("rock", "paper", "rock")
    found = judge.ask([JudgedPair(rock, paper, 0), JudgedPair(paper, rock, 0), JudgedPair(rock, again, 0)]).read()
    assert found == pytest.approx([(0.4 + 1 - 0.9) / 2, (0.9 + 1 - 0.4) / 2, 0.5])
    assert len(leaning.asked) == 2, "each order once, and equal matches are not asked about"
    assert leaning.asked[0] == "first:\nYou threw rock.\nrock\n\nsecond:\nYou threw paper.\npaper\n"


class Speaking:
    """A judge behind a server, who says what it prefers, in any order, and sometimes nothing that can be used."""

    def __init__(self, *said):
        self.said, self.asked = list(said), []

    def submit(self, request):
        assert request.role.conduct.on_illegal is OnIllegal.FORFEIT  # so that a server may be asked in plain words
        self.asked.append(request.observation)
        reply, said = Future(), self.said[(len(self.asked) - 1) % len(self.said)]
        threading.Timer(
            0.01 * (3 - len(self.asked) % 3),
            lambda: reply.set_exception(said) if isinstance(said, Exception) else reply.set_result(Reply(said)),
        ).start()
        return reply


@pytest.mark.parametrize(
    ("said", "preferred"),
    [
        (("first", "second"), 1.0),
        (("first", "first"), 0.5),
        (("second", "no idea"), 0.25),
        (("first", CallFailed("no answer within 3 seconds")), 0.75),
    ],
)
def test_a_judge_who_only_speaks_is_asked_for_all_at_once(said, preferred):
    with Engines() as engines:
        judge = PlayerJudge("random", "throw", "Which?", engines)
    object.__setattr__(judge._player, "engine", Speaking(*said))
    rock, paper, _ = throws("rock", "paper", "rock")
    assert judge.ask([JudgedPair(rock, paper, 0)]).read() == [preferred]


def test_a_judge_who_never_answers_ends_the_run():
    with Engines() as engines:
        judge = PlayerJudge("random", "throw", "Which?", engines)
    object.__setattr__(judge._player, "engine", Speaking(ServerError("gone")))
    rock, paper, _ = throws("rock", "paper", "rock")
    with pytest.raises(ServerError, match="gone"):
        judge.ask([JudgedPair(rock, paper, 0)]).read()


def test_random_prefers_nothing(tmp_path):
    found = compared(tmp_path, throws("rock", "paper", "rock"), "credit.rule=spo", "shaping.preferred.judge=random")
    assert [one.preferred for one in found] == [(0.5,)] * 3


@pytest.mark.parametrize(
    ("text", "overrides", "sentence"),
    [
        (TINY, ["credit.rule=spo", "matchmaking.group_size=4"], "does not say which of two matches is preferred"),
        (THROW, ["credit.rule=spo", "matchmaking.group_size=1"], "compares matches from one start"),
        (THROW, ["shaping.preferred.weight=1", "matchmaking.group_size=1"], "compares matches from one start"),
        (THROW, ["shaping.preferred.judge=random"], "nothing asks it"),
        (THROW, ["credit.rule=spo", "shaping.preferred.judge=always:rock"], "must be a single player that can answer"),
        (THROW, ["shaping.agreement.weight=1"], "every role chooses its reply"),
        (THROW, ["shaping.preferred.roles={'throw/nobody'=1}"], "no role"),
    ],
)
def test_what_nobody_could_judge_is_refused(tmp_path, text, overrides, sentence):
    with pytest.raises(UsageError, match=sentence):
        compared(tmp_path, [], *overrides) if text is THROW else league.train(
            config(tmp_path, *overrides, text=text), tmp_path / "run"
        )


def reply(text, action, legal=("bet", "pass")):
    return Turn(0, "first", "main", "", legal, text, action, 0.0, None)


def test_a_thought_agrees_or_not_with_the_action():
    (role,) = [
        one.model_copy(update={"reply": ReplyForm.FREE})
        for one in load_roles(make_game("kuhn_poker").spec)
        if one.seat == 0
    ]
    assert agreement(role, reply("I hold a king, so I bet. [bet]", "bet")) == 1.0
    assert agreement(role, reply("<think>I will pass.</think>[bet]", "bet")) == -1.0
    assert agreement(role, reply("I will bet or pass. [bet]", "bet")) == 0.0, "two actions are none"
    assert agreement(role, reply("A king is high. [bet]", "bet")) == 0.0, "no action is named"
    assert agreement(role, reply("I will not bet. So I pass. [pass]", "pass")) == 1.0
    assert agreement(role, reply("I will bet.", None)) == 0.0, "an illegal reply"
    assert agreement(load_roles(make_game("kuhn_poker").spec)[0], reply("bet", "bet")) == 0.0, "a choice"


def test_thoughts_are_read_as_the_seats_own_role_writes_them(tmp_path):
    """The first seat chooses, and has no thoughts; the second marks answers with braces, and thinks of both."""
    context = run_context(config(tmp_path, "shaping.agreement.weight=0.5", text=FREE), tmp_path)
    first, second = context.roles["kuhn_poker"]
    roles = (
        first.model_copy(update={"reply": ReplyForm.CHOICE}),
        second.model_copy(update={"answer_open": "{", "answer_close": "}"}),
    )
    said = [(1, "So I bet. {bet}", "bet"), (0, "So I bet. {bet}", "bet"), (1, "So I bet. {pass}", "pass")]
    turns = [Turn(seat, "", "main", "", ("pass", "bet"), text, action, 0.0, None) for seat, text, action in said]
    match = MatchRequest(0, "kuhn_poker", 5, 0, ("main",) * 2, (True,) * 2)
    played = Episode(match, tuple(turns), (0.0, 0.0), EndReason.FINISHED)
    [found] = with_shaping(replace(context, roles={"kuhn_poker": roles}), 1, [played])
    assert found.shaping == (0.5, 0.0, -0.5)


def made(run):
    return {name: data for name, data in contents(run.path).items() if name != "config.toml"}


@pytest.mark.thorough
def test_at_weight_0_runs_are_the_same_bit_for_bit(tmp_path):
    plain = league.train(config(tmp_path, text=FREE), tmp_path / "plain")
    off = league.train(
        config(tmp_path, "shaping.agreement.weight=0.0", "shaping.preferred.weight=0.0", text=FREE), tmp_path / "off"
    )
    assert made(off) == made(plain)
    on = league.train(config(tmp_path, "shaping.agreement.weight=1.0", text=FREE), tmp_path / "on")
    assert "kuhn_poker/agreement/first" in on.iterations()[-1]
    assert "kuhn_poker/agreement/first" not in off.iterations()[-1]


def test_a_run_learns_by_a_judge(tmp_path):
    run = league.train(config(tmp_path, "credit.rule=spo"), tmp_path / "judged")
    (episode, *_) = run.episodes()
    assert 0.0 <= episode.preferred[0] <= 1.0
    plain = league.train(config(tmp_path, "credit.rule=grpo"), tmp_path / "plain")
    weights = [{n: d for n, d in contents(r.path).items() if n.endswith("model.safetensors")} for r in (run, plain)]
    assert weights[0] != weights[1], "nothing is paid in throw, so that grpo learns nothing"


def test_scripts_throw():
    (episode,) = play(
        [MatchRequest(0, "throw", 0, 0, ("a",), (False,))],
        roles_of=lambda _: load_roles(make_game("throw").spec),
        engine_of=lambda _: Script("poor"),
        make_game=make_game,
    )
    assert episode.turns[0].action == "rock"
