"""A command line's settings for the language models that play, which override their run's or card's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from games.common.errors import UsageError

if TYPE_CHECKING:  # slow to import, and a tournament's plan is read without
    from league.config import RolesConfig, RunConfig


class PlayerSettings(NamedTuple):
    """The options of a command; None leaves a setting as the run or the role card has it."""

    reply: str | None = None  # "choice" or "free"
    max_reply_tokens: int | None = None
    temperature: float | None = None
    dtype: str | None = None
    engine: str | None = None
    threads: int | None = None  # of torch; results depend on it only by rounding
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    demonstrations: int | None = None
    stores: bool | None = None  # False: without the notes that players keep

    @classmethod
    def of(cls, arguments: Any) -> PlayerSettings:
        """Return the settings of parsed options. Raises UsageError for a number out of range."""
        from league.config import RolesConfig
        from league.population.players.model_engine import require_engine

        settings = cls(*(getattr(arguments, name) for name in cls._fields))
        if settings.engine is not None:
            require_engine(settings.engine, "--engine")
        settings.roles(RolesConfig())
        return settings

    def given(self) -> dict[str, Any]:
        """Return the settings that were given, except ``threads``: those that decide which replies are sampled."""
        return {name: value for name, value in self._asdict().items() if value is not None and name != "threads"}

    def roles(self, config: RolesConfig) -> RolesConfig:
        """Return the overrides of role cards with these settings. Raises UsageError for a value out of range."""
        from games.common.validation import validated
        from league.config import RolesConfig

        overrides = {key: value for key, value in self.given().items() if key in RolesConfig.model_fields}
        table = config.model_dump(exclude_none=True) | overrides
        if overrides.get("reply") == "free" and table.get("on_illegal") == "mask":
            del table["on_illegal"]  # a free reply cannot be masked: it forfeits
        return validated(RolesConfig, table, "The settings of players")

    def run(self, config: RunConfig) -> RunConfig:
        """Return a run's configuration with these settings."""
        from league.config.load import validate

        table = config.model_dump(exclude_none=True)
        table["roles"] = self.roles(config.roles).model_dump(exclude_none=True)
        if self.dtype is not None:
            table["model"]["dtype"] = self.dtype
            for policy in table["policies"].values():
                policy["model"].pop("dtype", None)
            for of_engine in table["engine"].values():
                if isinstance(of_engine, dict):  # an engine's own type of weights, which would override the model's
                    of_engine.pop("dtype", None)
        if self.engine is not None:
            table["engine"]["kind"] = self.engine
        return validate(table)

    def check_used(self, names: Iterable[str], language_models: bool) -> None:
        """Raise UsageError if settings were given, and none of the players is a language model."""
        named = {"stores": "no-notes"}
        given = [name for name, value in self._asdict().items() if value is not None]
        options = [f"--{named.get(name, name.replace('_', '-'))}" for name in given]
        if options and not language_models:
            raise UsageError(
                f"{', '.join(options)}: there is no language model among {', '.join(names)}, so this changes nothing. "
                "Leave it out."
            )


UNCHANGED = PlayerSettings()
