"""``league serve``: a snapshot behind OpenAI's chat-completions API, until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import shlex
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import tomli_w

from arena.gpus import may_have_gpu
from games.common.destinations import file_to_write
from games.common.errors import UsageError, unknown_name
from games.common.files import atomic_write
from games.common.text import plain
from league.config.load import run_roles
from league.population.models.example_requests import ExampleRequest, example_requests
from league.population.players.engines import Engines
from league.population.players.machine import is_installed
from league.population.players.model_engine import ENGINES, EngineKind, Server
from league.population.players.settings import PlayerSettings
from league.population.storage.population import Snapshot
from league.population.storage.run_dir import Run, open_run
from roles.role import ReplyForm, Role


class Place(NamedTuple):
    """Where a snapshot is served."""

    url: str
    player: Path | None  # where the settings of a player who asks it are written


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C. Raises UsageError for a port that cannot be had."""
    name, _, which = arguments.snapshot.partition("@")
    source = open_run(name)
    snapshot = source.population.verify(source.population.get(which) if which else source.population.all()[-1])
    player = file_to_write(arguments.player, "--player") if arguments.player else None
    servers = {name: kind for name, kind in ENGINES.loaded().items() if kind.server is not None}
    engine = arguments.engine or _default_engine(servers)
    if engine not in servers:
        raise unknown_name("server", engine, servers, "--engine chooses one.")
    if servers[engine].server is Server.ITS_OWN:
        from league.cli.playing.vllm_server import serve_by_vllm

        port = _free_port(arguments)
        return serve_by_vllm(
            source, snapshot, arguments, port, lambda url: announce(source, snapshot, Place(url, player))
        )
    return _serve(source, snapshot, engine, arguments, player)


def _default_engine(servers: Mapping[str, EngineKind]) -> str:
    """Return an engine for GPUs where its package is installed and there is a GPU: without one, ours is as fast."""
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
    """Return the error of an address that cannot be had."""
    where = f"--host {arguments.host} --port {arguments.port}"
    return UsageError(f"{where}: {error.strerror}. Choose another port, or 0 for any free one.")


def policy_roles(source: Run, snapshot: Snapshot) -> list[Role]:
    """Return the roles that a snapshot's policy plays in its run; all of them where it plays none of its own."""
    roles = [role for seats in run_roles(source.config).values() for role in seats]
    return [role for role in roles if role.policy == snapshot.policy] or roles


def longest_reply(roles: list[Role]) -> int:
    """Return the most tokens of a reply."""
    return max(role.max_reply_tokens for role in roles)


def announce(source: Run, snapshot: Snapshot, place: Place) -> None:
    """Say where the snapshot is, and what to type to talk to it; write the settings of a player."""
    print(
        f"{plain(str(source.path))}@{snapshot.id} is served at {place.url} as the model {snapshot.id}. Ctrl-C stops it."
    )
    examples = example_requests(source.config, snapshot.policy)
    for name, example in list(examples.items())[:1]:
        print(f"Ask it as {name} was asked in training:\n  {plain(curl(place.url, snapshot.id, example))}")
    game = next((example.game for example in examples.values()), next(iter(source.config.games)))
    if place.player is None:
        print("Let it play: --player FILE.toml writes the settings of the player openai:FILE.toml.", flush=True)
        return
    atomic_write(place.player, player_toml(source, snapshot, place.url))
    words = ["league", "match", f"openai:{place.player}", "random", "--game", game]
    print(f"Let it play:\n  {plain(shlex.join(words))}", flush=True)


def curl(url: str, model: str, example: ExampleRequest) -> str:
    """Return a command line that asks what an example asks."""
    body: dict[str, object] = {"model": model, "messages": example.chat}
    if example.role.reply is ReplyForm.CHOICE:
        body["structured_outputs"] = {"choice": list(example.legal)}
    words = ["curl", "-s", f"{url}/chat/completions", "-H", "Content-Type: application/json", "-d", json.dumps(body)]
    return shlex.join(words)


def player_toml(source: Run, snapshot: Snapshot, url: str) -> str:
    """Return the settings of a player who asks the server with the run's own prompts."""
    settings = {
        "model": snapshot.id,
        "url": url,
        "run": str(source.path.absolute()),
        "choice": "structured_outputs",
        "seed": True,
        "max_reply_tokens": longest_reply(policy_roles(source, snapshot)),
    }
    return tomli_w.dumps(settings)
