"""A player's policy over a public tree, in games that are too large for a table, and how exploitable it is there."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from arena.records import TabularInBulk
from games.common.errors import UsageError
from games.common.files import atomic_write
from league.population.models.cache import cache_home
from league.population.models.source import model_folder
from league.population.players.player import Player
from league.population.players.tabulating import PolicyReader
from league.population.storage.identity import without_suffix
from league.population.storage.immutable_folder import sha256
from league.population.storage.run_dir import DISTILLED, STATE_FOLDER, Run
from league.theory.public import dark_bounds, dark_reading
from league.theory.public.bounds import Bounds, bounds
from league.theory.public.dark_boards import DarkBoard
from league.theory.public.from_openspiel import LargeGame
from league.theory.public.goofspiel import Goofspiel
from league.theory.public.measures import best_responses, reach, returns
from league.theory.public.reading import Position, asker, first_positions, read_policy
from league.theory.public.seat_arrays import KINDS
from league.theory.public.tree import Floats, PublicTree
from roles.role import ReplyForm

TIMED = 1024  # states by which it is guessed how long all take
TABLES = "tables"  # the folder of stored tables


class PublicValues(NamedTuple):
    """What a player earns against itself and a best response against it, in the game's units a match."""

    exact: bool  # False: some replies were sampled
    illegal_rate: float
    values: tuple[float, float]  # by seat
    best_responses: tuple[float, float]  # by seat


def public_values(player: Player, game: LargeGame, tell: Callable[[int], object], seed: int = 0) -> PublicValues:
    """Ask a player at every information state of a large game, and compute its best responses.

    ``tell`` regularly gets the number of states asked so far. A mixture is its equivalent behaviour policy.
    A language model's probabilities are stored while it is asked, and not asked for again (``table_of``).
    """
    readers: list[PolicyReader] = []
    if isinstance(game, PublicTree):
        policy = _policy(player, game, readers, tell, seed)
        value, best = returns(game, policy), best_responses(game, policy)
    else:
        policies = _by_seat(player, game, readers, tell, seed)
        value, best = KINDS[type(game)].value(game, policies), KINDS[type(game)].best_responses(game, policies)
    replies = sum(reader.replies for reader in readers)
    return PublicValues(
        exact=not replies,
        illegal_rate=sum(reader.illegal for reader in readers) / replies if replies else 0.0,
        values=(value, -value),
        best_responses=best,
    )


def _policy(
    player: Player, tree: PublicTree, readers: list[PolicyReader], tell: Callable[[int], object], seed: int
) -> Floats:
    """Return a player's policy over a tree; ``readers`` receives the reader."""
    policy = tree.uniform()
    read: dict[str, Floats] = {}
    for seat in (0, 1):
        for identity, _ in player.members[seat]:
            if identity not in read:
                readers.append(_reader(player, identity, seed))
                told, table = _stored(table_of(player, identity, tree), tell)
                begun = None if table is None else (table.policy, table.asked)
                read[identity] = read_policy(tree, readers[-1], told, begun)
        moved = tree.moves() == seat
        mixed = mixture(tree, seat, [(read[identity], weight) for identity, weight in player.members[seat]])
        policy[moved] = mixed[moved]
    return policy


def _by_seat(
    player: Player,
    game: Goofspiel | DarkBoard,
    readers: list[PolicyReader],
    tell: Callable[[int], object],
    seed: int,
) -> tuple[Any, Any]:
    """Return a player's policies in a game with an array for each seat; ``readers`` receives the readers."""
    kind, found, before, last = KINDS[type(game)], [], 0, 0

    def tell_all(asked: int) -> None:
        nonlocal last
        last = before + asked
        tell(last)

    for seat in (0, 1):
        members = []
        for identity, weight in player.members[seat]:
            readers.append(_reader(player, identity, seed))
            told, table = _stored(table_of(player, identity, game, seat), tell_all)
            begun = None if table is None else (kind.cut(game, table.policy), table.asked)
            last += table.asked if table else 0
            members.append((kind.read(game, seat, readers[-1], told, begun), weight))
            before = last
        found.append(kind.mixture(game, seat, members))
    return found[0], found[1]


def _stored(
    table: PublicTable | None, tell: Callable[[int], object]
) -> tuple[Callable[[int], object], PublicTable | None]:
    """Return ``tell`` wrapped such that the table is saved first, and the table."""
    if table is None:
        return tell, None

    def told(asked: int) -> None:
        table.keep(asked)
        tell(asked)

    return told, table


def seconds_for(player: Player, game: LargeGame) -> float:
    """Estimate how long ``public_values`` takes, from the time of the first states that it asks."""
    left = 0.0
    for identity in {identity for members in player.members for identity, _ in members}:
        reader, some = _reader(player, identity, 0), some_positions(game)
        reader([next(some)])  # which loads the model, and finds the order of the states
        begun = time.monotonic()
        positions = list(itertools.islice(some, TIMED))
        reader(positions)
        seats = (None,) if isinstance(game, PublicTree) else (0, 1)
        tables = [table_of(player, identity, game, seat) for seat in seats]
        states = game.information_states - sum(table.asked for table in tables if table)
        left += (time.monotonic() - begun) / len(positions) * states
    return left


def table_bytes(game: LargeGame) -> int:
    """Return the size of one member's table."""
    if isinstance(game, PublicTree):
        return 8 * game.positions * max(map(len, game.hands))
    return sum(KINDS[type(game)].uniform(game, seat).nbytes for seat in (0, 1))


def some_positions(game: LargeGame) -> Iterator[Position]:
    """Yield information states of a game that are about as long as most, at least two."""
    return first_positions(game) if isinstance(game, PublicTree) else KINDS[type(game)].positions(game)


def public_bounds(player: Player, tree: LargeGame, seconds: float, seed: int = 0) -> Bounds:
    """Return bounds of a player's exploitability, from its play at sampled states, within this many seconds.

    Raises UsageError for goofspiel, and for a mixture: it draws its member for a whole match, which plans by state do
    not know.
    """
    if isinstance(tree, Goofspiel):
        raise UsageError(
            "Bounds from samples exist only for liar's dice and dark boards. "
            f"Take fewer than {tree.cards} cards, or more --minutes."
        )
    identities = {identity for members in player.members for identity, _ in members}
    if len(identities) > 1:
        raise UsageError(
            f"{player.label} is a mixture of {len(identities)} players, but bounds from samples are for a single "
            "player. Name one snapshot, RUN@SNAPSHOT, or leave out --minutes."
        )
    reader = _reader(player, identities.pop(), seed)
    if isinstance(tree, DarkBoard):
        return dark_bounds.bounds(tree, dark_reading.asker(tree, reader), seconds, seed)
    return bounds(tree, asker(tree, reader), seconds, seed)


def _reader(player: Player, identity: str, seed: int) -> PolicyReader:
    rng = random.Random(f"{seed}/{identity}")
    return PolicyReader(identity, player.engine_of(identity), player.roles, rng, bulk=True)


class PublicTable:
    """One player's policy in a file that is mapped into memory, written while the player is asked.

    A killed command continues after the last written batch: a file next to the table says how many states were asked,
    and of which weights, prompts and game. A table of anything else is started over. ``policy`` is the mapped file.
    """

    def __init__(self, folder: Path, name: str, game: str, uniform: Floats, of: object) -> None:
        """Open the table ``name``, or make it, uniform; ``of`` is all that the policy depends on, as JSON data."""
        facts = json.dumps([game, uniform.shape, of], sort_keys=True)
        self._seal = hashlib.sha256(facts.encode()).hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{name}.{game}.{self._seal[:12]}"
        self._progress, path = folder / f"{stem}.json", folder / f"{stem}.npy"
        self.asked = self._read(path, uniform.shape)
        if not self.asked:
            np.lib.format.open_memmap(path, "w+", np.float64, uniform.shape)[:] = uniform
        self.policy: Floats = np.lib.format.open_memmap(path, "r+", np.float64, uniform.shape)

    def keep(self, asked: int) -> None:
        """Write to the disk what was asked so far, then how much that is."""
        if asked > self.asked:
            self.policy.flush()  # type: ignore[attr-defined]  # of a memory map
            atomic_write(self._progress, json.dumps({"asked": asked, "of": self._seal}))
            self.asked = asked

    def _read(self, path: Path, shape: tuple[int, ...]) -> int:
        """Return how many states of the file are written; 0 if it is another table's, or is damaged."""
        try:
            progress = json.loads(self._progress.read_bytes())
            if progress["of"] == self._seal and np.load(path, mmap_mode="r").shape == shape:
                return int(progress["asked"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return 0


def table_of(player: Player, identity: str, game: LargeGame, seat: int | None = None) -> PublicTable | None:
    """Return the stored table of a model whose probabilities are known; None for any other player.

    A snapshot's is among its run's tables; a model's without a run is in the cache folder. ``seat``: only of this seat.
    """
    engine = player.engine_of(identity)
    if not isinstance(engine, TabularInBulk) or any(role.reply is not ReplyForm.CHOICE for role in player.roles):
        return None
    path, at, snapshot = without_suffix(identity).rpartition("@")
    if identity.startswith("hf:"):
        folder, weights = cache_home() / TABLES, Path(model_folder(identity.removeprefix("hf:")))
    elif at:
        folder, run = Path(path) / STATE_FOLDER / TABLES, Run(Path(path))
        home = run.distilled if snapshot.startswith(f"{DISTILLED}/") else run.population
        weights = home.get(snapshot.rpartition("/")[2]).path
    else:  # within a run that trains, which measures each snapshot once
        return None
    files = sorted(file for file in weights.glob("*") if file.suffix in (".safetensors", ".json"))
    roles = [role.model_dump(mode="json") for role in player.roles]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", identity.rpartition("@")[2])
    if isinstance(game, PublicTree):
        title, uniform = game.game, game.uniform()
    else:
        title, uniform = game.name, KINDS[type(game)].uniform(game, seat or 0)
    return PublicTable(folder, name, title, uniform, [seat, roles, [[file.name, sha256(file)] for file in files]])


def mixture(tree: PublicTree, seat: int, members: list[tuple[Floats, float]]) -> Floats:
    """Return the behaviour of a seat that draws one of several policies for each match (Kuhn's theorem).

    A move counts by the members' weights times how likely each would have come there; evenly by weight where none
    would.  # [N, H]
    """
    if len(members) == 1:
        return members[0][0]
    hands = len(tree.hands[seat])
    moved = np.flatnonzero(tree.moves() == seat)
    before = tree.parent[moved]
    chances = [weight * reach(tree, policy, seat)[before] for policy, weight in members]
    total = np.sum(chances, axis=0)
    mixed = members[0][0].copy()
    weights = sum(weight for _, weight in members)
    mixed[moved, :hands] = 0.0
    for chance, (policy, weight) in zip(chances, members, strict=True):
        share = np.where(total > 0.0, chance / np.where(total > 0.0, total, 1.0), weight / weights)
        mixed[moved, :hands] += share * policy[moved, :hands]
    return mixed
