"""Settings of a model behind an OpenAI-compatible server. They hold no key, only the name of its variable."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"
SPARE_BYTES = 2**21  # of a response, for what stands beside the reply, such as a model's reasoning
BYTES_PER_CHARACTER = 12  # at most, as JSON: two escapes of six bytes

_Count = Annotated[int, Field(ge=1)]
_Price = Annotated[float, Field(ge=0.0)]


class RemoteSettings(BaseModel):
    """A model, its server, and the limits of requests to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1, description="the model's name on the server")
    url: str = Field(OPENAI_URL, description="base URL of the API; it usually ends in /v1")
    key_variable: str | None = Field(
        None, description=f"environment variable that holds the key; OpenAI's own server: {OPENAI_KEY}"
    )
    reply: Literal["free", "choice"] = Field("free", description="reply form of its roles outside training runs")
    run: str | None = Field(
        None,
        description="a training run: the model gets the same prompts as that run's models, word for word, as a model "
        "behind `league serve` needs; reply is then the run's",
    )
    choice: Literal["plain", "structured_outputs", "json_schema"] = Field(
        "plain",
        description="how to ask for a choice: in words, which the answer may ignore; by vLLM's structured_outputs; or "
        "by a JSON schema, as OpenAI takes",
    )
    max_reply_tokens: _Count = Field(
        512, description="longest reply in tokens, reasoning included, whatever the role's limit"
    )
    max_reply_characters: _Count = Field(
        100_000,
        description="longest reply that is accepted; a longer one, from a server that ignores max_tokens, "
        "counts as unusable",
    )
    seed: bool = Field(
        False, description="whether requests carry seeds from their match's stream; few servers obey them"
    )
    concurrency: _Count = Field(16, description="requests in flight at once")
    requests_per_minute: _Count | None = Field(None, description="rate limit; None: none")
    tokens_per_minute: _Count | None = Field(None, description="rate limit for prompts and replies together")
    timeout: float = Field(120.0, gt=0.0, description="seconds within which the whole answer must arrive")
    late: Literal["failed", "empty"] = Field(
        "failed",
        description="what a missing answer counts as after the last attempt: a failure, which restarts the match; or "
        "an empty reply, which is illegal where replies are not masked, so that only that seat pays for it",
    )
    retries: int = Field(5, ge=0, description="how often a request is repeated before it counts as failed")
    input_price: _Price | None = Field(None, description="price of a million prompt tokens, in any currency")
    output_price: _Price | None = Field(None, description="price of a million reply tokens, in the same currency")
    system_message: bool = Field(
        True, description="whether the model takes a system message; false: its text opens the request instead"
    )
    special_tokens: tuple[str, ...] = Field(
        ("<|", "<｜", "<s>", "</s>", "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]"),
        description="markers of chat templates; where text shown to the model contains one, the marker is broken up",
    )
    body: dict[str, Any] = Field({}, description="extra fields of every request, such as reasoning_effort")
    leave_out: tuple[str, ...] = Field((), description="fields that this server refuses, such as temperature")

    @field_validator("url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if not re.fullmatch(r"https?://[^\s/?#]+([/?#]\S*)?", url) or not parts.hostname or parts.port == 0:
            raise ValueError("url must begin with http:// or https://, for example http://localhost:8000/v1.")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(
                "url must not hold a name, a password or a query, which would be saved with every run. Put the key "
                "into an environment variable and name that as key_variable."
            )
        return url.rstrip("/")

    @field_validator("key_variable")
    @classmethod
    def _name_of_a_variable(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch("[A-Z_][A-Z0-9_]*", name):  # it may be the key itself: never show it
            raise ValueError(
                f"key_variable must be the name of an environment variable, in capitals, such as {OPENAI_KEY}, "
                "not the key itself: a key is never written to a file."
            )
        return name

    @model_validator(mode="after")
    def _both_prices_or_none(self) -> RemoteSettings:
        if (self.input_price is None) != (self.output_price is None):
            raise ValueError("input_price and output_price must be given together.")
        return self

    @property
    def variable(self) -> str | None:
        """The environment variable with the key. OpenAI's goes to other servers only if ``key_variable`` names it."""
        return self.key_variable or (OPENAI_KEY if self.url == OPENAI_URL else None)

    @property
    def max_response_bytes(self) -> int:
        """The bytes of a response, uncompressed, that are read; a longer one is an answer that cannot be used."""
        return SPARE_BYTES + BYTES_PER_CHARACTER * self.max_reply_characters

    @property
    def shows_key(self) -> bool:
        """Whether the key would go to another machine in plain words, for all to read who are on the way."""
        parts = urlsplit(self.url)
        return self.variable is not None and parts.scheme == "http" and not _is_this_machine(str(parts.hostname))


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost" or host.endswith(".localhost")  # RFC 6761, 6.3
