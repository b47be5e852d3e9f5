"""A player's policy over a public tree, in games that are too large for a table, and what it gives away there."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from arena.records import TabularInBulk
from games.common.errors import UsageError
from league.population.models.cache import cache_home
from league.population.models.source import model_folder
from league.population.players.player import Player
from league.population.players.tabulating import PolicyReader
from league.population.storage.immutable_folder import sha256
from league.population.storage.public_tables import PublicTable
from league.population.storage.run_dir import DISTILLED, STATE_FOLDER, Run
from league.theory.public.bounds import Bounds, bounds
from league.theory.public.measures import best_responses, reach, returns
from league.theory.public.reading import asker, first_positions, read_policy
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


def public_values(player: Player, tree: PublicTree, tell: Callable[[int], object], seed: int = 0) -> PublicValues:
    """Ask a player at every information state of a tree, and compute its best responses.

    ``tell`` gets the number of states that were asked, now and then. A mixture is its equivalent behaviour policy.
    What a language model's probabilities are is stored while it is asked, and not asked again (``table_of``).
    """
    policy = tree.uniform()
    readers: list[PolicyReader] = []
    read: dict[str, Floats] = {}
    for seat in (0, 1):
        for identity, _ in player.members[seat]:
            if identity not in read:
                readers.append(_reader(player, identity, seed))
                read[identity] = _read(player, identity, tree, readers[-1], tell)
        moved = tree.moves() == seat
        mixed = mixture(tree, seat, [(read[identity], weight) for identity, weight in player.members[seat]])
        policy[moved] = mixed[moved]
    replies = sum(reader.replies for reader in readers)
    value = returns(tree, policy)
    return PublicValues(
        exact=not replies,
        illegal_rate=sum(reader.illegal for reader in readers) / replies if replies else 0.0,
        values=(value, -value),
        best_responses=best_responses(tree, policy),
    )


def seconds_for(player: Player, tree: PublicTree) -> float:
    """Return about how long ``public_values`` takes, by the time of the first states that it asks."""
    left = 0.0
    for identity in {identity for members in player.members for identity, _ in members}:
        reader = _reader(player, identity, 0)
        reader(first_positions(tree, 1))  # which loads the model
        begun = time.monotonic()
        positions = first_positions(tree, TIMED)
        reader(positions)
        table = table_of(player, identity, tree)
        states = tree.information_states - (table.asked if table else 0)
        left += (time.monotonic() - begun) / len(positions) * states
    return left


def public_bounds(player: Player, tree: PublicTree, seconds: float, seed: int = 0) -> Bounds:
    """Return between what a player's exploitability lies, from what it does at sampled states, in so many seconds.

    Raises UsageError for a mixture: it draws its member for a whole match, which plans by state do not know.
    """
    identities = {identity for members in player.members for identity, _ in members}
    if len(identities) > 1:
        raise UsageError(
            f"{player.label} is a mixture of {len(identities)} players, and bounds from samples are of one. Name one "
            "snapshot, RUN@SNAPSHOT, or take away --minutes."
        )
    return bounds(tree, asker(tree, _reader(player, identities.pop(), seed)), seconds, seed)


def _reader(player: Player, identity: str, seed: int) -> PolicyReader:
    rng = random.Random(f"{seed}/{identity}")
    return PolicyReader(identity, player.engine_of(identity), player.roles, rng, bulk=True)


def _read(
    player: Player, identity: str, tree: PublicTree, reader: PolicyReader, tell: Callable[[int], object]
) -> Floats:
    """Return one member's policy, from its stored table as far as that goes."""
    table = table_of(player, identity, tree)
    if table is None:
        return read_policy(tree, reader, tell)

    def told(asked: int) -> None:
        table.keep(asked)
        tell(asked)

    return read_policy(tree, reader, told, (table.policy, table.asked))


def table_of(player: Player, identity: str, tree: PublicTree) -> PublicTable | None:
    """Return the stored table of a model whose probabilities are known; None for any other player.

    A snapshot's stands with its run's tables, and a model's of no run in the cache folder.
    """
    engine = player.engine_of(identity)
    if not isinstance(engine, TabularInBulk) or any(role.reply is not ReplyForm.CHOICE for role in player.roles):
        return None
    if identity.startswith("hf:"):
        folder, weights = cache_home() / TABLES, Path(model_folder(identity.removeprefix("hf:")))
    else:
        path, _, snapshot = identity.rpartition("@")
        folder = Path(path) / STATE_FOLDER / TABLES
        home = Run(Path(path)).distilled if snapshot.startswith(f"{DISTILLED}/") else Run(Path(path)).population
        weights = home.get(snapshot.rpartition("/")[2]).path
    files = sorted(file for file in weights.glob("*") if file.suffix in (".safetensors", ".json"))
    roles = [role.model_dump(mode="json") for role in player.roles]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", identity.rpartition("@")[2])
    return PublicTable(folder, name, tree, [roles, [[file.name, sha256(file)] for file in files]])


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
