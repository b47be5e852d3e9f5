"""Players behind a server at the command line: they play, costs are counted, errors are shown, keys are not."""

import json
import logging
import threading
import time

import pytest
from support.processes.server import INPUT_TOKENS, MODELS, OUTPUT_TOKENS, Server, completion, error

from arena.samplers.scripted import Random
from games.common.errors import UsageError
from league.cli import main
from league.population.players.engines import Engines
from league.population.players.outside import outside_engines

KEY = "sk-0123456789abcdef-SECRET"


def run_league(capsys, status, *arguments):
    """Run a command; return its stdout and stderr."""
    assert main(list(map(str, arguments))) == status
    captured = capsys.readouterr()
    return captured.out, captured.err


def player_name(server):
    return f"openai:{MODELS[0]}@{server.url}"


def threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("openai")]


def test_a_match_is_played_and_its_usage_counted(capsys):
    with Server() as server:
        out, _ = run_league(
            capsys, 0, "match", player_name(server), "always:bet", "--game", "kuhn_poker", "--matches", 20, "--json"
        )
        report = json.loads(out)
        requests = len(server.seen)
    assert report["illegal_rate"] == 0.0
    assert report["score_a"] == pytest.approx(0.5)  # both always bet, each deal in both seatings
    assert report["usage"] == {
        player_name(server): {
            "requests": requests,
            "retries": 0,
            "input_tokens": INPUT_TOKENS * requests,
            "output_tokens": OUTPUT_TOKENS * requests,
            "uncounted": 0,
            "unusable": 0,
            "cost": None,
        }
    }
    assert server.seen[0].body["messages"][0]["content"] == "Answer with the word ready."
    assert requests == 21  # one reply a match, and the one before the first
    assert threads() == []


def test_prices_are_printed(capsys, tmp_path):
    with Server() as server:
        file = tmp_path / "player.toml"
        file.write_text(
            f'model = "{MODELS[0]}"\nurl = "{server.url}"\nreply = "choice"\ninput_price = 1e4\noutput_price = 0.0\n'
        )
        server.behave = lambda number, body: completion("pass")
        out, _ = run_league(capsys, 0, "match", f"openai:{file}", "random", "--game", "kuhn_poker", "--matches", 2)
    requests = len(server.seen)
    assert f"openai:{file}: {requests} requests, 0 of them repeated; " in out
    assert f"cost {requests * INPUT_TOKENS / 100:.4f}." in out
    assert "Answer with one of these, letter for letter" in server.seen[-1].body["messages"][1]["content"]


@pytest.mark.parametrize(
    ("behave", "message"),
    [
        (lambda number, body: error(401, f"Incorrect API key provided: {KEY}"), "Check the key in LAB_KEY."),
        (lambda number, body: error(404, "The model does not exist"), "There is no model at"),
        (lambda number, body: error(400, "Unsupported value: seed"), "leave_out"),
        (lambda number, body: error(503, f"no room for {KEY}"), "at the last of 3 attempts"),
    ],
)
def test_what_would_fail_fails_before_the_first_match(behave, message, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_KEY", KEY)
    with Server(behave) as server:
        file = tmp_path / "player.toml"
        file.write_text(f'model = "m"\nurl = "{server.url}"\nkey_variable = "LAB_KEY"\n')
        out, err = run_league(capsys, 2, "match", f"openai:{file}", "random", "--game", "kuhn_poker")
    assert out == ""
    assert message in err
    assert "SECRET" not in err
    assert server.seen[0].key == f"Bearer {KEY}"
    assert threads() == []


def test_a_key_goes_only_to_the_server_that_it_is_for(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Server() as server:
        run_league(capsys, 0, "match", player_name(server), "random", "--game", "kuhn_poker", "--matches", 2)
    assert {seen.key for seen in server.seen} == {None}
    monkeypatch.delenv("OPENAI_API_KEY")
    _, err = run_league(capsys, 2, "match", "openai:gpt-5-mini", "random", "--game", "kuhn_poker")
    assert "OPENAI_API_KEY, which is not set" in err
    monkeypatch.setenv("OPENAI_API_KEY", "sk-SECRET\nX-Header: 1")
    _, err = run_league(capsys, 2, "match", "openai:gpt-5-mini", "random", "--game", "kuhn_poker")
    assert "holds characters that no key has" in err
    assert "SECRET" not in err


ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
ECHOES = {"plain": KEY, "one letter escaped": KEY.replace("-", "\\u002d"), "escaped": ESCAPED}


@pytest.mark.parametrize("echo", ECHOES)
def test_no_key_is_written_anywhere(echo, capsys, caplog, tmp_path, monkeypatch):
    """The server repeats the key in replies and errors, all loggers are on, and a match is saved and one fails."""
    monkeypatch.setenv("LAB_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    file, folder = tmp_path / "player.toml", tmp_path / "run" / "tournament"

    def behave(number, body):
        answer = completion("KEY [bet]") if number < 12 else error(403, "KEY is blocked")
        return answer._replace(data=json.dumps(answer.data).replace("KEY", ECHOES[echo]).encode())

    with Server(behave) as server:
        file.write_text(f'model = "m"\nurl = "{server.url}"\nkey_variable = "LAB_KEY"\nconcurrency = 1\n')
        save = ("--save", tmp_path / "run" / "matches.jsonl")
        output = run_league(
            capsys, 0, "match", f"openai:{file}", "random", "--game", "kuhn_poker", "--matches", 2, *save
        )
        arguments = ("tournament", f"openai:{file}", "random", "--game", "kuhn_poker", "--run-dir", folder)
        output += run_league(capsys, 1, *arguments)
    assert {seen.key for seen in server.seen} == {f"Bearer {KEY}"}
    assert "403 ([key] is blocked)" in "".join(output)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert any(b"[key] [bet]" in path.read_bytes() for path in files)
    assert len(files) >= 3
    for content in (*(path.read_bytes() for path in files), caplog.text.encode(), "".join(output).encode()):
        assert b"SECRET" not in content
        assert ESCAPED.encode() not in content


def test_a_key_within_json_within_json_is_not_written_either(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LAB_KEY", KEY)
    file, saved = tmp_path / "player.toml", tmp_path / "matches.jsonl"
    with Server(lambda number, body: completion(f'{{"action": "{ESCAPED}"}}')) as server:
        file.write_text(
            f'model = "m"\nurl = "{server.url}"\nkey_variable = "LAB_KEY"\nchoice = "json_schema"\nreply = "choice"\n'
        )
        arguments = ("match", f"openai:{file}", "random", "--game", "kuhn_poker", "--matches", 2, "--save", saved)
        run_league(capsys, 0, *arguments)
    assert "[key]" in saved.read_text()
    assert "SECRET" not in saved.read_text()


def test_a_key_that_goes_over_plain_http_to_another_machine_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LAB_KEY", KEY)
    file = tmp_path / "player.toml"
    arguments = ("match", f"openai:{file}", "random", "--game", "kuhn_poker", "--matches", 2)
    with Server() as server:
        for host, told in (("127.0.0.1", False), ("0.0.0.0", True)):  # the second is this machine, but no loopback
            url = server.url.replace("127.0.0.1", host)
            file.write_text(f'model = "m"\nurl = "{url}"\nkey_variable = "LAB_KEY"\n')
            _, err = run_league(capsys, 0, *arguments)
            assert (f"{url} receives the key in LAB_KEY over plain http" in err) == told
            assert KEY not in err


def settled(server):
    """Return how many requests a server has got once abandoned ones no longer arrive."""
    count = -1
    while count < (count := len(server.seen)):
        time.sleep(0.3)
    return count


def test_a_tournament_that_fails_keeps_its_matches_and_goes_on(capsys, tmp_path):
    broken = True

    def behave(number, body):
        if broken and number > 9:
            time.sleep(1.0)  # the replies before are through by then
            return error(402, "no credit")
        return completion("[bet]")

    with Server(behave) as server:
        folder = tmp_path / "tournament"
        arguments = ("tournament", player_name(server), "always:bet", "--game", "kuhn_poker", "--matches", 40)
        _, err = run_league(capsys, 1, *arguments, "--run-dir", folder)
        assert f"league: The engine OpenAIApi failed on a request for {player_name(server)}: ServerError: " in err
        assert "Traceback" not in err
        [summary] = [line for line in err.splitlines() if line.startswith("Stopped after")]
        assert int(summary.split()[2]) > 0
        broken, before = False, settled(server)
        out, _ = run_league(capsys, 0, "tournament", "--resume", "--run-dir", folder, "--json")
        missing = 40 - int(summary.split()[2])
        assert len(server.seen) - before == missing + 1  # one reply a match, and the one before the first
    report = json.loads(out)
    assert report["usage"][player_name(server)]["requests"] == missing + 1
    assert threads() == []


def test_it_may_be_an_anchor_or_a_guest():
    with Server() as server, Engines() as engines:
        by_name = outside_engines(("random", player_name(server)), "evaluation.anchors", engines)
        assert isinstance(by_name["random"], Random)
        assert by_name[player_name(server)] is engines.remote(player_name(server))
        assert len(threads()) == 1
    assert threads() == []
    with pytest.raises(UsageError, match="openai:MODEL"), Engines() as engines:
        outside_engines(("opnai:m",), "matchmaking.guests", engines)


def test_without_httpx2_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "httpx2", None)
    monkeypatch.delitem(__import__("sys").modules, "arena.samplers.openai_api", raising=False)
    _, err = run_league(capsys, 2, "match", "openai:m@http://localhost:1/v1", "random", "--game", "kuhn_poker")
    assert "pip install 'llm-league[openai]'" in err


SMALL = {
    "iterations": 1, "snapshot_every": 1, "threads": 1, "model.hidden_size": 16, "model.layers": 1,
    "model.intermediate_size": 16, "model.vocabulary": 300, "cold_start.steps": 1, "cold_start.matches": 4,
    "evaluation.matches": 4, "matchmaking.self_play": 0.5, "matchmaking.fictitious": 0.5,
}  # fmt: skip


def test_a_run_trains_against_it_and_rates_by_it(capsys, tmp_path):
    (tmp_path / "run.toml").write_text("[games.kuhn_poker]\nmatches = 16\n")
    with Server(lambda number, body: completion("bet")) as server:
        guest = json.dumps([player_name(server)])
        settings = SMALL | {"matchmaking.guests": guest, "evaluation.anchors": guest}
        arguments = ["train", tmp_path / "run.toml", "--run-dir", tmp_path / "run"]
        for key, value in settings.items():
            arguments += ["--set", f"{key}={value}"]
        _, err = run_league(capsys, 2, *arguments)
        assert "the replies of first in kuhn_poker are masked. Set roles.on_illegal = 'retry'" in err
        assert not (tmp_path / "run").exists()
        out, _ = run_league(capsys, 0, *arguments, "--set", "roles.on_illegal=retry")
        assert f"{player_name(server)}: " in out
        assert " tokens read and " in out
    metrics = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert f"kuhn_poker/score_against_{player_name(server)}" in metrics
    assert threads() == []
