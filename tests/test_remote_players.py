"""Players behind a server at the command line: they play, they are paid for, they fail loudly, and no key is kept."""

import json
import logging
import threading
import time

import pytest
from small_server import MODELS, READ, WRITTEN, Server, completion, error

from arena.samplers.scripted import Random
from games.errors import UsageError
from league.cli import main
from league.evaluation import scripted_engines
from league.player_engines import Engines

KEY = "sk-0123456789abcdef-SECRET"


def words(capsys, status, *arguments):
    """Return what a command wrote on stdout and stderr."""
    assert main(list(map(str, arguments))) == status
    captured = capsys.readouterr()
    return captured.out, captured.err


def named(server):
    return f"openai:{MODELS[0]}@{server.url}"


def threads():
    return [one.name for one in threading.enumerate() if one.name.startswith("openai")]


def test_a_match_is_played_told_and_accounted_for(capsys):
    with Server() as server:
        out, _ = words(
            capsys, 0, "match", named(server), "always:bet", "--game", "kuhn_poker", "--matches", 20, "--json"
        )
        found = json.loads(out)
        asked = len(server.seen)
    assert found["illegal_rate"] == 0.0
    assert found["score_a"] == pytest.approx(0.5)  # both always bet, each deal in both seatings
    assert found["usage"] == {
        named(server): {
            "requests": asked,
            "retries": 0,
            "input_tokens": READ * asked,
            "output_tokens": WRITTEN * asked,
            "uncounted": 0,
            "cost": None,
        }
    }
    assert server.seen[0].body["messages"][0]["content"] == "Answer with the word ready."
    assert asked == 21  # one reply a match, and the one before the first
    assert threads() == []


def test_prices_are_told_in_words(capsys, tmp_path):
    with Server() as server:
        file = tmp_path / "player.toml"
        file.write_text(
            f'model = "{MODELS[0]}"\nurl = "{server.url}"\nreply = "choice"\ninput_price = 1e4\noutput_price = 0.0\n'
        )
        server.behave = lambda number, body: completion("pass")
        out, _ = words(capsys, 0, "match", f"openai:{file}", "random", "--game", "kuhn_poker", "--matches", 2)
    asked = len(server.seen)
    assert f"openai:{file}: {asked} requests, 0 of them repeated; " in out
    assert f"cost {asked * READ / 100:.4f}." in out
    assert "Answer with one of these, letter for letter" in server.seen[-1].body["messages"][1]["content"]


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (lambda number, body: error(401, f"Incorrect API key provided: {KEY}"), "Check the key in LAB_KEY."),
        (lambda number, body: error(404, "The model does not exist"), "There is no model at"),
        (lambda number, body: error(400, "Unsupported value: seed"), "leave_out"),
        (lambda number, body: error(503, f"no room for {KEY}"), "at the last of 3 attempts"),
    ],
)
def test_what_would_fail_fails_before_the_first_match(behave, said, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_KEY", KEY)
    with Server(behave) as server:
        file = tmp_path / "player.toml"
        file.write_text(f'model = "m"\nurl = "{server.url}"\nkey_variable = "LAB_KEY"\n')
        out, err = words(capsys, 2, "match", f"openai:{file}", "random", "--game", "kuhn_poker")
    assert out == ""
    assert said in err
    assert "SECRET" not in err
    assert server.seen[0].key == f"Bearer {KEY}"
    assert threads() == []


def test_a_key_goes_only_to_the_server_that_it_is_for(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Server() as server:
        words(capsys, 0, "match", named(server), "random", "--game", "kuhn_poker", "--matches", 2)
    assert {seen.key for seen in server.seen} == {None}
    monkeypatch.delenv("OPENAI_API_KEY")
    _, err = words(capsys, 2, "match", "openai:gpt-5-mini", "random", "--game", "kuhn_poker")
    assert "OPENAI_API_KEY, which is not set" in err
    monkeypatch.setenv("OPENAI_API_KEY", "sk-SECRET\nX-Header: 1")
    _, err = words(capsys, 2, "match", "openai:gpt-5-mini", "random", "--game", "kuhn_poker")
    assert "holds letters that no key has" in err
    assert "SECRET" not in err


def test_no_key_is_written_anywhere(capsys, caplog, tmp_path, monkeypatch):
    """The server repeats the key in replies and errors, all loggers are on, and a match is saved and one fails."""
    monkeypatch.setenv("LAB_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    file, folder = tmp_path / "player.toml", tmp_path / "run" / "tournament"

    def behave(number, body):
        return completion(f"{KEY} [bet]") if number < 12 else error(403, f"{KEY} is blocked")

    with Server(behave) as server:
        file.write_text(f'model = "m"\nurl = "{server.url}"\nkey_variable = "LAB_KEY"\nconcurrency = 1\n')
        save = ("--save", tmp_path / "run" / "matches.jsonl")
        told = words(capsys, 0, "match", f"openai:{file}", "random", "--game", "kuhn_poker", "--matches", 2, *save)
        asked = ("tournament", f"openai:{file}", "random", "--game", "kuhn_poker", "--run-dir", folder)
        told += words(capsys, 1, *asked)
    assert {seen.key for seen in server.seen} == {f"Bearer {KEY}"}
    assert "403 ([key] is blocked)" in "".join(told)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert any(b"[key] [bet]" in path.read_bytes() for path in files)
    assert len(files) >= 3
    for content in (*(path.read_bytes() for path in files), caplog.text.encode(), "".join(told).encode()):
        assert b"SECRET" not in content


def settled(server):
    """Return how much a server has seen once requests that were given up no longer arrive."""
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
        asked = ("tournament", named(server), "always:bet", "--game", "kuhn_poker", "--matches", 40)
        _, err = words(capsys, 1, *asked, "--run-dir", folder)
        assert f"league: The engine OpenAIApi failed on a request for {named(server)}: ServerFailed: " in err
        assert "Traceback" not in err
        [kept] = [line for line in err.splitlines() if line.startswith("Stopped after")]
        assert int(kept.split()[2]) > 0
        broken, before = False, settled(server)
        out, _ = words(capsys, 0, "tournament", "--resume", "--run-dir", folder, "--json")
        missing = 40 - int(kept.split()[2])
        assert len(server.seen) - before == missing + 1  # one reply a match, and the one before the first
    found = json.loads(out)
    assert found["usage"][named(server)]["requests"] == missing + 1
    assert threads() == []


def test_it_may_be_an_anchor_or_a_guest():
    with Server() as server, Engines() as engines:
        found = scripted_engines(("random", named(server)), "evaluation.anchors", engines)
        assert isinstance(found["random"], Random)
        assert found[named(server)] is engines.remote(named(server))
        assert len(threads()) == 1
    assert threads() == []
    with pytest.raises(UsageError, match="openai:MODEL"), Engines() as engines:
        scripted_engines(("opnai:m",), "matchmaking.guests", engines)


def test_a_table_of_a_player_that_costs_is_refused(capsys):
    with Server() as server:
        _, err = words(capsys, 2, "exploitability", named(server), "--game", "kuhn_poker")
    assert "1,024 requests" in err
    assert len(server.seen) == 1


def test_without_httpx2_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "httpx2", None)
    monkeypatch.delitem(__import__("sys").modules, "arena.samplers.openai_api", raising=False)
    _, err = words(capsys, 2, "match", "openai:m@http://localhost:1/v1", "random", "--game", "kuhn_poker")
    assert "pip install 'llm-league[openai]'" in err


SMALL = {
    "iterations": 1, "snapshot_every": 1, "threads": 1, "model.hidden_size": 16, "model.layers": 1,
    "model.intermediate_size": 16, "model.vocabulary": 300, "cold_start.steps": 1, "cold_start.matches": 4,
    "evaluation.matches": 4, "matchmaking.self_play": 0.5, "matchmaking.fictitious": 0.5,
}  # fmt: skip


def test_a_run_trains_against_it_and_rates_by_it(capsys, tmp_path):
    (tmp_path / "run.toml").write_text("[games.kuhn_poker]\nmatches = 16\n")
    with Server(lambda number, body: completion("bet")) as server:
        guest = json.dumps([named(server)])
        settings = SMALL | {"matchmaking.guests": guest, "evaluation.anchors": guest}
        asked = ["train", tmp_path / "run.toml", "--run-dir", tmp_path / "run"]
        for key, value in settings.items():
            asked += ["--set", f"{key}={value}"]
        _, err = words(capsys, 2, *asked)
        assert "the replies of first in kuhn_poker are masked. Set roles.on_illegal = 'retry'" in err
        assert not (tmp_path / "run").exists()
        out, _ = words(capsys, 0, *asked, "--set", "roles.on_illegal=retry")
        assert f"{named(server)}: " in out
        assert " tokens read and " in out
    metrics = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert f"kuhn_poker/score_against_{named(server)}" in metrics
    assert threads() == []
