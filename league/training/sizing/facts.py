"""What a run is planned from: its cards, the rates that they reach, and the shape of its model before it is loaded."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from typing import NamedTuple

from arena.gpus import find_gpu, main_memory
from arena.roofline import CARDS, KNOWN, Card, Shape, Work, decoding, updating
from games.common.errors import UsageError
from games.common.files import read_json
from league.config import RunConfig
from league.population.models.catalogue import CATALOGUE
from league.population.models.source import model_folder

ASSUMED = 0.5  # share of the roofline that kernels reach, where nothing was measured
# A processor with this many FLOP/s and bytes/s is usual; what counts here is the memory.
CPU_FLOPS, CPU_BANDWIDTH = 1e11, 2e10


class Gpus(NamedTuple):
    """Some cards of one kind."""

    number: int
    card: Card

    def __str__(self) -> str:
        return f"{self.number}x{self.card.name}"


def parse_gpus(text: str) -> Gpus:
    """Return the cards that ``8xH100`` names. Raises UsageError for others than are known."""
    match = re.fullmatch(r"(?:(\d{1,6})x)?(.+)", text.strip())
    known = [
        card for card in CARDS if match and match[2].lower().replace(" ", "") in card.name.lower().replace(" ", "")
    ]
    if match is None or len(known) != 1 or match[1] == "0" * len(match[1] or ""):
        names = ", ".join(card.name.split()[0] if card.name != "RTX 4090" else "4090" for card in CARDS)
        raise UsageError(f"--gpus {text!r}: give a number and one of {names}, such as 8xH100.")
    return Gpus(int(match[1] or 1), known[0])


def this_machine(device: str) -> Card | None:
    """Return the card that a device here is; None for one that is not known."""
    if device == "cpu":
        return Card("processor", CPU_FLOPS, CPU_BANDWIDTH, float(main_memory()))
    gpu = find_gpu()
    if gpu is None:
        return None
    like = next((card for card in CARDS if card.name.split()[0] in gpu.name), CARDS[2])
    return like._replace(name=gpu.name, memory=float(gpu.memory))


class Rates(NamedTuple):
    """Which share of the roofline a card reaches, and how that is known."""

    play: float = ASSUMED
    update: float = ASSUMED
    source: str = f"assumed: {ASSUMED:.0%} of the roofline"

    def play_seconds(self, work: Work, card: Card) -> float:
        """Return the seconds of a piece of play."""
        return work.seconds(card) / self.play

    def update_seconds(self, work: Work, card: Card) -> float:
        """Return the seconds of a piece of an update."""
        return work.seconds(card) / self.update


ASSUMED_RATES = Rates()


def read_rates(path: Path) -> Rates:
    """Return the shares that `python -m benchmarks gpu` measured, the median of its cases.

    Raises UsageError for a file without any.
    """
    try:
        stored = read_json(path)
        cases = [case for part in stored["parts"].values() for case in part.get("cases", [])]
        name, date = stored["device"]["name"], str(stored.get("date", "of an unknown date"))[:10]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"--rates {path}: it is not a file of `python -m benchmarks gpu` ({error!r}).") from error
    card = next((card for card in CARDS if card.name.split()[0] in name), None)
    shapes = {shape.name: shape for shape in KNOWN.values()}
    shares: dict[str, list[float]] = {"play": [], "update": []}
    for case in cases if card is not None else ():
        kind, model, *rest = str(case.get("key", "")).split("/")
        rate = case.get("tokens_per_second")
        if not rate or model not in shapes or card is None:
            continue
        if kind == "play" and rest[1:] == ["decode"]:
            shares["play"].append(rate / decoding(shapes[model], int(rest[0])).rate(card))
        elif kind == "update" and rest[-1].isdecimal():
            work = updating(shapes[model], int(rest[-1]), lora=rest[0] == "LoRA", checkpointing="checkpointed" in rest)
            shares["update"].append(rate / work.rate(card))
    if not all(shares.values()):
        raise UsageError(f"--rates {path}: it has no rates of play and updates on a known kind of card.")
    return Rates(median(shares["play"]), median(shares["update"]), f"measured on {name}, {date}")


def shape_of(config: RunConfig, policy: str = "main") -> Shape:
    """Return the shape of a policy's model. Raises UsageError, with what to do, where it is not known."""
    model = config.model_of(policy)
    if model.source == "pocket":
        widths = model.hidden_size, model.layers, model.heads, model.kv_heads, model.hidden_size // model.heads
        return Shape("pocket", *widths, model.intermediate_size, model.vocabulary)
    if model.source in KNOWN:
        return KNOWN[model.source]
    known = CATALOGUE.get(model.source)
    folder = Path(model_folder(model.source)) if known is None or _is_stored(model.source) else None
    path = folder / "config.json" if folder is not None else None
    if path is None or not path.is_file():
        path = _from_hub(model.source)
    if path is None:
        raise UsageError(
            f"model.source = {model.source!r}: its config.json is not on this machine. Name a folder that has it, or "
            f"one of {', '.join(KNOWN)}."
        )
    try:
        return Shape.of(model.source, read_json(path))
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(f"{path} does not describe an attention decoder that can be planned ({error!r}).") from error


def _is_stored(source: str) -> bool:
    try:
        model_folder(source)
    except UsageError:
        return False
    return True


def _from_hub(source: str) -> Path | None:
    """Return the hub's ``config.json`` where this machine has a copy."""
    if source.count("/") != 1:
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(source, "config.json")
    return Path(found) if isinstance(found, str) else None
