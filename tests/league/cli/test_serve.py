"""`league serve` as a user has it: what it says to type works, and its player plays as the snapshot itself."""

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from math import exp
from types import SimpleNamespace

import openai
import pytest
from support.pages import blocks, page_of
from support.source import ROOT

from arena.records import ReplyRequest
from arena.replays import load_episodes
from games.registry import make_game
from games.spec import labels
from league.cli import main
from league.cli.playing.serve import command, player_toml
from league.cli.python.runs import open_run
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.players.settings import PlayerSettings
from league.population.storage.run_dir import Run
from league.training.board.metrics_log import read_metrics

COLD = "0.00001"  # a temperature at which the likeliest reply is as good as certain


def port_of(said):
    return int(re.search(r"http://[^:]+:(\d+)/v1", said[0])[1])


def start_long_reply(connection):
    content = json.dumps(
        {
            "model": "main-000010",
            "messages": [{"role": "user", "content": "?"}],
            "n": 128,
            "max_tokens": 900,
            "temperature": 9,
        }
    )
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n{content}".encode())


@pytest.fixture(scope="module")
def served(run_dir, tmp_path_factory):
    """Serve a snapshot in its own process; yield what it said, the file of its player, and then press Ctrl-C."""
    player = tmp_path_factory.mktemp("served") / "served.toml"
    words = ["serve", f"{run_dir}@main-000010", "--port", "0", "--player", str(player), "--threads", "1"]
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(
        [sys.executable, "-m", "league", *words], env=environment, stdout=subprocess.PIPE, text=True, cwd=player.parent
    )
    said = [process.stdout.readline().rstrip("\n") for _ in range(5)]
    try:
        yield SimpleNamespace(said=said, player=player, url=re.search(r"http://\S+/v1", said[0])[0])
        with ExitStack() as stack:
            for _ in range(4):
                start_long_reply(stack.enter_context(socket.create_connection(("127.0.0.1", port_of(said)))))
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            assert process.wait(15) == 0  # though 512 replies of 900 tokens were under way
        assert process.stdout.read() == "\nThe server has stopped.\n"
    finally:
        process.kill()
        process.wait()


def test_it_says_what_to_type_and_that_works(served, run_dir):
    first, ask, curl, play, match = served.said
    assert first == f"{run_dir}@main-000010 is served at {served.url} as the model main-000010. Ctrl-C stops it."
    assert ask == "Ask it what kuhn_poker/first was asked in training:"
    words = shlex.split(curl)
    assert words[:3] == ["curl", "-s", f"{served.url}/chat/completions"]
    body = json.loads(words[-1])
    game = make_game("kuhn_poker")
    game.reset(0)
    assert body["messages"] == open_run(run_dir).prompt(game)
    with openai.OpenAI(base_url=served.url, api_key="none") as client:
        answer = client.post("/chat/completions", body=body, cast_to=openai.types.chat.ChatCompletion)
    assert answer.choices[0].message.content in ("pass", "bet")
    assert play == "To let it play:"
    assert match == f"  league match openai:{served.player} random --game kuhn_poker"
    assert main([*shlex.split(match)[1:], "--matches", "4"]) == 0


def test_its_log_probs_are_the_snapshots_own_policy(served, run_dir):
    """In every position of Kuhn poker, asked with the run's own prompts."""
    run, told, own = open_run(run_dir), {}, {}
    with Engines(PlayerSettings(threads=1)) as engines, openai.OpenAI(base_url=served.url, api_key="none") as client:
        player = resolve(f"{run_dir}@main-000010", make_game("kuhn_poker").spec, engines)

        def walk(game):
            seat, legal = game.to_act(), labels(game)
            key = (seat, seat is not None and game.observe(seat))
            if seat is not None and key not in told:
                told[key] = _distribution(client, run.prompt(game), legal)
                request = ReplyRequest(player.draw(seat, None), player.roles[seat], game, key[1], legal, (), None)
                [own[key]] = player.engine.distributions([request])
            for action in legal:
                after = game.copy()
                after.apply(action)
                walk(after)

        for deal in range(12):
            game = make_game("kuhn_poker")
            game.reset(deal)
            walk(game)
    assert len(own) == 12  # all that Kuhn poker has
    for key, probabilities in own.items():
        assert told[key] == pytest.approx(probabilities, abs=1e-5), key


def _distribution(client, chat, legal):
    """Return the probability of each of two replies, by the log-probs of those that are drawn."""
    answer = client.chat.completions.create(
        model="main-000010",
        messages=chat,
        n=16,
        seed=0,
        logprobs=True,
        extra_body={"structured_outputs": {"choice": list(legal)}},
    )
    drawn = {one.message.content: exp(sum(score.logprob for score in one.logprobs.content)) for one in answer.choices}
    return [drawn.get(action, 1.0 - sum(drawn.values())) for action in legal]


def test_its_player_plays_as_the_snapshot_plays(served, run_dir, capsys):
    """Cold, against itself, move for move; in a game in which no move can be made twice."""

    def episodes(player):
        file = served.player.with_name("matches.jsonl")
        words = ["match", player, player, "--game", "tic_tac_toe", "--matches", "2", "--temperature", COLD]
        assert main([*words, "--save", str(file), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["illegal_rate"] == 0.0
        return [[(turn.observation, turn.reply, turn.action) for turn in match.turns] for match in load_episodes(file)]

    own = episodes(f"{run_dir}@main-000010")
    assert episodes(f"openai:{served.player}") == own
    assert len({reply for match in own for _, reply, _ in match}) >= 5


def test_the_code_of_the_page_works(served, run_dir, capsys):
    [code] = [text for _, language, text in blocks(page_of("serving")) if language == "py" and "run.prompt(" in text]
    for told, here in {
        "runs/pocket": str(run_dir),
        "main-000120": "main-000010",
        "http://127.0.0.1:8000/v1": served.url,
    }.items():
        assert told in code
        code = code.replace(told, here)
    exec(compile(code, "engines.md", "exec"), {})  # ours: it stands in this repository
    assert capsys.readouterr().out in ("pass\n", "bet\n")


def test_a_port_that_is_taken_is_told_in_a_sentence(run_dir, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(run_dir), "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert said == (
        f"league: --host 127.0.0.1 --port {port}: Address already in use. Choose another port, or 0 for any free one.\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "There is no run named 'nowhere'."),
        (["RUN@main-000011"], "There is no snapshot named 'main-000011'. Did you mean main-000010"),
        (["RUN", "--mcp", "--game", "kuhn_poker", "--port", "0"], "--mcp uses standard input and output"),
        (["RUN", "--mcp", "--game", "kuhn_poker", "--host", "127.0.0.1"], "leave out --host and --port"),
        (["RUN", "--port", "70000"], "--port 70000: it should be a whole number from 0 to 65,535"),
        (["RUN", "--host", "no.such.host.invalid"], "--host no.such.host.invalid --port 8000: "),
        (["RUN", "--player", "/"], "--player /: it is a folder."),
    ],
)
def test_what_cannot_be_served_is_refused(run_dir, capsys, words, message):
    assert main(["serve", *(word.replace("RUN", str(run_dir)) for word in words)]) == 2
    assert message in capsys.readouterr().err


def test_a_player_of_a_run_that_is_gone_is_refused(run_dir, tmp_path, capsys):
    run = Run(run_dir)
    snapshot = run.population.get("main-000010")
    text = player_toml(run, snapshot, "http://127.0.0.1:1/v1")
    assert "max_reply_tokens = 16" in text
    file = tmp_path / "player.toml"
    file.write_text(text.replace(str(run_dir), str(tmp_path / "gone")))
    assert main(["match", f"openai:{file}", "random", "--game", "kuhn_poker"]) == 2


def test_vllms_server_is_told_what_to_serve(run_dir, tmp_path):
    run = Run(run_dir)
    snapshot = run.population.get("main-000010")
    words = command(run.config, snapshot, None, tmp_path / "template")
    assert words[1:3] == ["-m", "vllm.entrypoints.openai.api_server"]
    assert words[words.index("--model") + 1] == str(snapshot.path)
    assert words[words.index("--served-model-name") + 1] == "main-000010"
    adapted = command(run.config, snapshot, "ORG/BASE", tmp_path / "template")
    assert adapted[adapted.index("--model") + 1] == "ORG/BASE"
    assert json.loads(adapted[-1]) == {"name": "main-000010", "path": str(snapshot.path)}
    assert adapted[adapted.index("--max-lora-rank") + 1] == "8"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["openai", "hf"])
def test_a_role_of_another_run_is_given_to_it(served, run_dir, tmp_path, kind):
    """Behind its server, and as a model in a folder: both answer as the second player, and only the first learns."""
    folder = run_dir / "population" / "main-000010"
    given = f"openai:{served.player}" if kind == "openai" else f"hf:{folder}"
    toml = tmp_path / "given.toml"
    toml.write_text(f"""
        iterations = 2
        snapshot_every = 1
        threads = 1
        games.kuhn_poker.matches = 16
        roles.player = {{"kuhn_poker/second" = "{given}"}}
        model = {{hidden_size = 16, layers = 1, heads = 2, kv_heads = 1, intermediate_size = 16}}
        cold_start = {{steps = 1, matches = 4}}
        evaluation = {{matches = 4}}
    """)
    assert main(["train", str(toml), "--run-dir", str(tmp_path / "run")]) == 0
    episodes = [e for path in (tmp_path / "run" / "episodes").glob("*.jsonl") for e in load_episodes(path)]
    seconds = [turn for episode in episodes for turn in episode.turns if turn.role == "second"]
    assert seconds
    assert {turn.player for turn in seconds} == {given}
    assert {turn.action for turn in seconds} <= {"pass", "bet"}
    *_, last = read_metrics(tmp_path / "run")
    assert 0.0 <= last["kuhn_poker/score_against_given"] <= 1.0
    assert not any("/advantage/second" in name for name in last)
