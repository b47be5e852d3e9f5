"""A suite as data: games, those to train on and those held out; opponents, how many matches, from which seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import Field

from games.aliases import full_name
from games.common.errors import UsageError, unknown_name
from games.common.files import read_toml
from games.common.section import LARGEST_SEED, Positive, Section
from games.common.validation import validated
from games.registry import make_game

SHIPPED = Path(__file__).parent.parent / "suites"


class Suite(Section):
    """A suite of games; every game has its full name."""

    title: str = Field("", description="what the suite is, in a sentence")
    source: str = Field("", description="source of its choice of games")
    games: tuple[str, ...] = Field((), description="games without a rule about training")
    training: tuple[str, ...] = Field((), description="games that may be trained on")
    held_out: tuple[str, ...] = Field((), description="games that no player evaluated by the suite may have trained on")
    levels: dict[str, tuple[str, ...]] = Field(
        {}, description="the same games by difficulty, the easiest level first: progress is reported level by level"
    )
    opponents: tuple[str, ...] = Field(
        ("random",), min_length=1, description='players as in `league match`, and "itself" for the evaluated player'
    )
    matches: Positive = Field(200, le=1_000_000, description="matches with each opponent in each game, at least")
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="seed of all deals and draws")

    def by_kind(self) -> Iterator[tuple[str, str]]:
        """Yield every game's kind ("training", "held out" or "") and its name."""
        for kind, names in (("training", self.training), ("held out", self.held_out), ("", self.games)):
            for name in names:
                yield kind, name


def suite_names() -> list[str]:
    """Return the names of the suites that come with the project."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_suite(name: str) -> Suite:
    """Return a suite of the project by name, or a suite from a file whose name ends in .toml.

    Raises UsageError for an unknown suite or game, a game that is named twice, and wrong keys.
    """
    path = Path(name).expanduser() if name.endswith(".toml") else SHIPPED / f"{name}.toml"
    if not name.endswith(".toml") and name not in suite_names():
        raise unknown_name("suite", name, suite_names(), "Your own suite is a file that ends in .toml.")
    try:
        data = read_toml(path)
    except OSError as error:
        raise UsageError(f"The suite {path} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.") from None
    suite = validated(Suite, data, name)
    full = {kind: tuple(map(full_name, getattr(suite, kind))) for kind in ("games", "training", "held_out")}
    suite = suite.model_copy(update=full)
    names = [game for _, game in suite.by_kind()]
    if not names:
        raise UsageError(f'{name} names no game. Write, for example: games = ["kuhn_poker"]')
    for game in names:
        if names.count(game) > 1:
            raise UsageError(f"{name} names {game} twice. Name every game once, under games, training or held_out.")
        make_game(game)  # refuses unknown games
    return suite.model_copy(update={"levels": _levels(suite.levels, names, name)})


def _levels(levels: Mapping[str, Iterable[str]], games: list[str], suite: str) -> dict[str, tuple[str, ...]]:
    """Return levels with full names. Raises UsageError unless each game of the suite stands in one of them."""
    full = {level: tuple(map(full_name, names)) for level, names in levels.items()}
    found = [game for names in full.values() for game in names]
    for game in dict.fromkeys([*games, *found] if levels else []):
        if game not in games or found.count(game) != 1:
            where = "twice" if found.count(game) > 1 else "in no level"
            wrong = f"has {game} {where}" if game in games else f"names {game}, which is no game of the suite"
            raise UsageError(
                f"{suite}: levels {wrong}. Put every game of the suite into one level, the easiest first, as in "
                'levels = { easy = ["tic_tac_toe"], hard = ["connect_four"] }; or leave levels out.'
            )
    return full


def check_training(suite: str, games: Iterable[str], allowed: bool) -> None:
    """Raise UsageError for a run that would train on its suite's held-out games, unless ``allowed`` to."""
    held_out = [game for game in games if game in load_suite(suite).held_out]
    if held_out and not allowed:
        raise UsageError(
            f"evaluation.suite = {suite!r} holds out {' and '.join(held_out)}, which this run would train on, so that "
            "its results on that suite would be misleading. Leave the game out, or set evaluation.train_on_held_out = "
            "true."
        )
