"""Models behind an OpenAI-compatible server as a person writes them: ``openai:MODEL``, ``openai:MODEL@URL``,
``openai:FILE.toml``.
"""

from __future__ import annotations

import tomllib
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from arena.remote.settings import RemoteSettings
from arena.remote.usage import Metered
from games.errors import UsageError
from games.spec import GameSpec
from league.config import RolesConfig
from league.settings import seat_roles, sentence
from roles.role import Role

if TYPE_CHECKING:
    from arena.samplers.openai_api import OpenAIApi

PREFIX = "openai:"


def open_remote(text: str) -> OpenAIApi:
    """Return the engine of a player, whose server has answered once.

    Raises UsageError, with what to do, for bad settings, a missing key, a server that is not there or does not know
    key or model, and where httpx2 is not installed.
    """
    settings = read_settings(text)
    try:
        from arena.samplers.openai_api import OpenAIApi
    except ModuleNotFoundError as error:
        if error.name != "httpx2":
            raise
        raise UsageError(
            f"{text} is asked over the network, which needs httpx2. Install it: pip install 'llm-league[openai]'."
        ) from error
    with ExitStack() as stack:
        engine = stack.enter_context(closing(OpenAIApi(settings)))
        engine.probe()
        stack.pop_all()
    return engine


def read_settings(text: str) -> RemoteSettings:
    """Return the settings of a player as it is written. Raises UsageError for what is no such player."""
    what = text.removeprefix(PREFIX)
    if not what:
        raise UsageError("openai: is followed by a model, MODEL@URL or a file: openai:gpt-5-mini, openai:FILE.toml.")
    if what.endswith(".toml"):
        return _validated(_read(text, Path(what).expanduser()), f"{what}: ")
    model, _, url = what.partition("@")
    given = {"model": model, "url": url} if "@" in what else {"model": model}
    return _validated(given, f"{PREFIX}{model}: ")


def remote_roles(settings: RemoteSettings, spec: GameSpec) -> tuple[Role, ...]:
    """Return the roles that a remote player has outside a run: it is told of an illegal reply and may try again."""
    return seat_roles(RolesConfig(reply=settings.reply, on_illegal="retry"), spec)


def check_price(label: str, engine: object, spec: GameSpec, requests: int) -> None:
    """Raise UsageError for a player whose every request has a price, where a table would take so many a state."""
    if isinstance(engine, Metered):
        raise UsageError(
            f"{label} tells no probabilities, and to estimate them would take {requests:,} requests, each with its "
            f"price, for every information state of {spec.name}. Let it play: league match."
        )


def _read(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{text}: {path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}.") from None


def _validated(data: dict[str, Any], where: str) -> RemoteSettings:
    try:
        return RemoteSettings.model_validate(data)
    except ValidationError as error:
        sentences = [sentence(mistake, RemoteSettings.model_fields) for mistake in error.errors()]
        raise UsageError("\n".join(f"{where}{one}" for one in sentences)) from None
