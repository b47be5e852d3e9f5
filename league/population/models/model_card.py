"""The model card of a snapshot: what it plays, how it was trained, how exploitable it is, and how to prompt it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from roles.chat_text import Message

CARD_FILE = "README.md"  # as the hub has it
TITLE = "This model plays a text game. It was trained by self-play with League."


class Base(NamedTuple):
    """The model that training began from."""

    name: str
    on_hub: bool  # then the name is its hub id


class CardFacts(NamedTuple):
    """The facts on a card."""

    name: str  # of the repository: ORG/NAME
    snapshot: str
    games: Sequence[str]
    base: Base | None  # None: trained from scratch
    merged: bool  # it was an adapter, which has been merged into the base
    iterations: int  # that its policy had been trained
    settings: Mapping[str, str]  # that matter, by name
    measured: Mapping[str, float]  # by metric, when it was frozen
    prompts: Mapping[str, Sequence[Message]]  # an example by game/role
    actions: Mapping[str, Sequence[str]]  # its legal answers
    command: str | None  # the command that reproduces the run; None: its config.toml does


def model_card(facts: CardFacts) -> str:
    """Return the card as Markdown, with the header that the hub reads."""
    first = facts.games[0]
    parts = [
        _header(facts),
        f"# {facts.name.partition('/')[2]}\n\n{TITLE} It is the snapshot `{facts.snapshot}`, after "
        f"{facts.iterations} iterations, of a run on {', '.join(facts.games)}. {_beginning(facts)}",
        "## How good it is\n\n" + _table("measured when it was frozen", "", facts.measured, ".4g"),
        "Exploitability is what a perfect opponent gains a match, averaged over seats; 0 is a Nash equilibrium.",
        "## How it was trained\n\n" + _table("setting", "value", facts.settings),
        f"```sh\n{facts.command}\n```" if facts.command else "The run's `config.toml` trains it again.",
        "## How to ask it\n\nThe tokenizer's chat template makes the prompt. It answers with an action, letter for "
        "letter, and the replies should be masked to the legal ones if its role says so.",
        *(_prompt(role, chat, facts.actions[role]) for role, chat in facts.prompts.items()),
        f"```sh\nleague match hf:{facts.name} random --game '{first}'\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _header(facts: CardFacts) -> str:
    base = [f"base_model: {facts.base.name}"] if facts.base and facts.base.on_hub else []
    lines = ["library_name: transformers", "pipeline_tag: text-generation", *base, "tags:", "- league", "- self-play"]
    return "\n".join(["---", *lines, "---"])


def _beginning(facts: CardFacts) -> str:
    """Return a sentence on what training began from."""
    if facts.merged:
        whose = facts.base.name if facts.base else "a small model that was built for the run"
        return f"It was trained as a LoRA adapter, which is merged here into its base: {whose}."
    return f"Training began from {facts.base.name}." if facts.base else "It was trained from scratch."


def _table(first: str, second: str, rows: Mapping[str, object], form: str = "") -> str:
    if not rows:
        return "Nothing was measured."
    lines = [f"| `{name}` | {value:{form}} |" for name, value in rows.items()]
    return "\n".join([f"| {first} | {second} |", "| --- | --- |", *lines])


def _prompt(role: str, chat: Sequence[Message], actions: Sequence[str]) -> str:
    """Return an example prompt of a role."""
    lines = [f"{message['role']}: {message['content']}" for message in chat]
    fence = "`" * (3 + "\n".join(lines).count("```"))
    return "\n".join([f"As `{role}`, which may answer {', '.join(actions)}:", "", f"{fence}text", *lines, fence])
