"""Tables of endpoints, state by state: from log-probs where they tell the truth, else counted, and what they cost."""

import json
import random
from math import log

import pytest
from support.processes.server import MODELS, Response, Server, completion, error

from arena.records import ScoredReply
from games.registry import make_game
from league.cli import main
from league.population.evaluation.exploitability_report import measure
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.players.tabulating import PolicyReader, TableSource, TabulatedPolicy, known_row
from league.theory.exact.exploitability import uniform_table
from roles.cards import load_roles
from roles.role import OnIllegal

SPEC = make_game("kuhn_poker").spec
BETS = 0.75  # of the endpoint, at every state


def role(**changes):
    return load_roles(SPEC)[0].model_copy(update=changes)


def scored(text, *logprobs):
    answer = completion(text)
    answer.data["choices"][0]["logprobs"] = {"content": [{"token": "t", "logprob": value} for value in logprobs]}
    return answer


def draws(number):
    return "bet" if number % 4 else "pass"


def tells(number, body):
    text = draws(number)
    if not body.get("logprobs"):
        return completion(text)
    share = BETS if text == "bet" else 1.0 - BETS
    return scored(text, log(share) / 2, log(share) / 2)  # of two tokens


def player_file(tmp_path, server, **more):
    path = tmp_path / "player.toml"
    settings = {"model": MODELS[0], "url": server.url, "reply": "choice"} | more
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    return f"openai:{path}"


def table_of(name, replies=8):
    with Engines() as engines:
        return resolve(name, SPEC, engines).tabulate(replies=replies)


def test_log_probs_give_the_table_itself(tmp_path):
    with Server(tells) as server:
        tabulated = table_of(player_file(tmp_path, server), replies=64)
        asked = len(server.seen)
    assert tabulated.source is TableSource.LOGPROBS
    assert not tabulated.exact
    assert tabulated.counts == {}
    for row in tabulated.table.probabilities.values():
        assert row == pytest.approx((1.0 - BETS, BETS))
    assert asked == 2 + 12 * 8  # not 64 a state


class Forgetful:
    """Tells the log-probs of bet and pass once, and later says the same words alone."""

    def __init__(self):
        told = [("bet", log(BETS)), ("pass", log(1.0 - BETS))]
        self.replies = [ScoredReply(*one) for one in told] + [ScoredReply(text, None) for text, _ in told * 31]

    def tells_logprobs(self):
        return True

    def score(self, requests):
        return [self.replies.pop(0) for _ in requests]


def test_what_a_server_once_told_of_a_text_is_known():
    roles, game = [role(), role()], make_game("kuhn_poker")
    reader = PolicyReader("player", Forgetful(), roles, random.Random(0), 64)
    assert reader([(0, game)]) == [pytest.approx((1.0 - BETS, BETS))]
    assert reader.replies == 8


@pytest.mark.parametrize(
    "behave",
    [
        lambda number, body: completion(draws(number)),
        lambda number, body: error(400, "logprobs is not known") if "logprobs" in body else completion(draws(number)),
        lambda number, body: scored(draws(number), -9.0),  # of before a mask: they come to nothing
        lambda number, body: scored(draws(number), -0.01),  # they come to more than 1
        lambda number, body: scored(draws(number), float("nan")),
        lambda number, body: scored(draws(number), "0"),
        lambda number, body: scored(draws(number), 800.0),
        lambda number, body: scored(draws(number), -1e308, -1e308),
        lambda number, body: scored(draws(number), -(10**400)),
        lambda number, body: scored(draws(number), float("-inf")),
        lambda number, body: Response(data=completion(draws(number)).data | {"logprobs": [1]}),
    ],
    ids=["none", "refused", "unmasked", "too much", "nan", "words", "certain", "vast", "vaster", "never", "elsewhere"],
)
def test_without_log_probs_that_add_up_replies_are_counted(tmp_path, behave):
    with Server(behave) as server:
        tabulated = table_of(player_file(tmp_path, server), replies=8)
    assert tabulated.source is TableSource.REPLIES
    assert {sum(counts) for counts in tabulated.counts.values()} == {8}
    assert len(tabulated.counts) == 12
    for key, counts in tabulated.counts.items():
        assert tabulated.table.probabilities[key] == pytest.approx([count / 8 for count in counts])


def test_a_reply_that_is_certain_is_known_at_once(tmp_path):
    with Server(lambda number, body: scored("bet", 0.0) if body.get("logprobs") else completion("bet")) as server:
        tabulated = table_of(player_file(tmp_path, server), replies=64)
        asked = len(server.seen)
    assert tabulated.source is TableSource.LOGPROBS
    assert set(tabulated.table.probabilities.values()) == {(0.0, 1.0)}
    assert asked == 2 + 12 * 8


def test_what_log_probs_leave_unknown_widens_the_interval():
    """By 2 · span · turns · unseen: Kuhn poker pays from −2 to 2, and is over in three turns."""
    table = uniform_table("kuhn_poker")
    with Engines() as engines:
        player = resolve("random", SPEC, engines)
    for unseen in (0.0, 1e-4):
        report = measure(player, TabulatedPolicy(table, False, 0.0, TableSource.LOGPROBS, 96, {}, unseen))
        ends = report.sampled.mean
        width = 2 * 4 * 3 * unseen
        assert (report.exploitability - ends.low, ends.high - report.exploitability) == pytest.approx((width, width))


def test_counts_follow_ids_and_illegal_replies_are_left_out(tmp_path):
    texts = ["bet", "bet", "fold", "pass"]
    with Server(lambda number, body: completion(texts[number % 4])) as server:
        tabulated = table_of(player_file(tmp_path, server), replies=8)
    assert tabulated.illegal_rate == pytest.approx(0.25)
    assert set(tabulated.counts.values()) == {(2, 4)}  # pass is id 0, bet is id 1


def test_a_row_is_known_when_its_replies_come_to_one():
    legal = ("pass", "bet")
    both = known_row(role(), legal, {"bet": log(0.75), "pass": log(0.25)})
    assert both.shares == pytest.approx((0.25, 0.75))
    one = known_row(role(), legal, {"bet": log(0.75)})  # masked: the rest is the other action's
    assert one.shares == pytest.approx((0.25, 0.75))
    assert one.unseen == 0.0
    words = role(conduct=role().conduct.model_copy(update={"on_illegal": OnIllegal.FORFEIT}))
    assert known_row(words, legal, {"bet": log(0.75)}) is None
    nearly = known_row(words, legal, {"bet": log(0.75), "pass": log(0.2495)})
    assert nearly.unseen == pytest.approx(0.0005, rel=0.01)
    illegal = known_row(words, legal, {"bet": log(0.5), "pass": log(0.25), "hm": log(0.25)})
    assert illegal.shares == pytest.approx((1 / 3, 2 / 3))
    assert known_row(words, legal, {"hm": 0.0}) is None
    assert known_row(role(), legal, {"bet": log(0.9), "pass": log(0.9)}) is None


def test_what_a_table_costs_is_said_first_and_no_more_is_asked(tmp_path, capsys):
    with Server(tells) as server:
        name = player_file(tmp_path, server, input_price=1.0, output_price=2.0, leave_out=["logprobs"])
        arguments = ["exploitability", name, "--game", "kuhn_poker", "--replies", "4", "--json"]
        assert main(arguments) == 0
        out, err = capsys.readouterr()
    assert "a table of kuhn_poker takes at most 48 requests" in err
    assert "for at most 0.06" in err  # 48 replies of 512 tokens, at 2 a million, and the prompts
    assert len(server.seen) == 48 + 1
    report = json.loads(out)
    sampled = report["sampled"]
    assert sampled["exploitability_low"] <= report["exploitability"] <= sampled["exploitability_high"]
    assert (report["source"], report["replies"]) == ("replies", 48)


def test_a_served_player_that_draws_at_another_temperature_is_counted(tmp_path, capsys):
    """A server may tell log-probs of before the temperature."""
    with Server(tells) as server:
        name = player_file(tmp_path, server)
        arguments = ["exploitability", name, "--game", "kuhn_poker", "--replies", "4", "--temperature", "0.5", "--json"]
        assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["source"] == "replies"
