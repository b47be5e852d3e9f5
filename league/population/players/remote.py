"""Players behind an OpenAI-compatible server: ``openai:MODEL``, ``openai:MODEL@URL``, ``openai:FILE.toml``."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.remote.settings import RemoteSettings
from games.common.errors import UsageError
from games.common.files import read_toml
from games.common.validation import validated
from games.spec import GameSpec
from league.config import RolesConfig
from league.config.load import seat_roles
from league.population.players.settings import UNCHANGED, PlayerSettings
from league.population.storage.run_dir import load_plugins_of, open_run
from roles.role import Role

if TYPE_CHECKING:
    from arena.samplers.openai_api import OpenAIApi

PREFIX = "openai:"


def open_remote(text: str, max_reply_tokens: int | None = None) -> OpenAIApi:
    """Return the engine of a player, after a first request that its server answered.

    Warns on standard error before a key is sent to another machine unencrypted.
    ``max_reply_tokens`` overrides its own setting.

    Raises UsageError, with what to do, for bad settings, a missing key, a server that cannot be reached or does not
    accept the key or model, and if httpx2 is not installed.
    """
    settings = read_settings(text)
    if max_reply_tokens is not None:
        settings = settings.model_copy(update={"max_reply_tokens": max_reply_tokens})
    try:
        from arena.samplers.openai_api import OpenAIApi
    except ModuleNotFoundError as error:
        if error.name != "httpx2":
            raise
        raise UsageError(
            f"{text} is reached over the network, which needs httpx2. Install it: pip install 'llm-league[openai]'."
        ) from error
    if settings.shows_key:
        sys.stderr.write(
            f"league: {settings.url} receives the key in {settings.variable} over plain http, which every machine on "
            "the way can read. Use https, or an SSH tunnel to localhost.\n"
        )
    with ExitStack() as stack:
        engine = stack.enter_context(closing(OpenAIApi(settings)))
        engine.probe()
        stack.pop_all()
    return engine


def read_settings(text: str) -> RemoteSettings:
    """Return the settings of a player by its name. Raises UsageError for a name without a model or a bad file."""
    model_or_file = text.removeprefix(PREFIX)
    if not model_or_file:
        raise UsageError("openai: takes a model, MODEL@URL or a file: openai:gpt-5-mini, openai:FILE.toml.")
    if model_or_file.endswith(".toml"):
        return validated(RemoteSettings, _read(text, Path(model_or_file).expanduser()), model_or_file)
    model, _, url = model_or_file.partition("@")
    fields = {"model": model, "url": url} if "@" in model_or_file else {"model": model}
    return validated(RemoteSettings, fields, f"{PREFIX}{model}")


def remote_roles(settings: RemoteSettings, spec: GameSpec, override: PlayerSettings = UNCHANGED) -> tuple[Role, ...]:
    """Return a remote player's roles outside a run: after an illegal reply it may retry.

    A player that is prompted like a run's models plays in that run's roles. Raises UsageError if there is no such run.
    """
    if settings.run is not None:
        load_plugins_of([settings.run])
        return seat_roles(override.roles(open_run(settings.run).config.roles), spec)
    config = RolesConfig(reply=settings.reply, on_illegal="retry", wording="full")
    return seat_roles(override.roles(config), spec)


def _read(text: str, path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except OSError as error:
        raise UsageError(f"{text}: {path} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.") from None
