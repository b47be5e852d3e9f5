"""What a player of a run is besides its weights: the cards that word its prompts, and the notes that it keeps.

A snapshot remembers the digest of every card of its run, and the version of the notes that it was frozen with
(``league.population.storage.notes``). Where it plays as it did there, its name is ``RUN@SNAPSHOT``; with another card
or without its notes it is another player, and the digest of these follows its name: ``RUN@SNAPSHOT#1f0c2a9b``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from arena.records import MatchRequest
from games.common.errors import UsageError
from league.population.storage.notes import Place, table_of
from roles.role import Role, Roles

if TYPE_CHECKING:
    from league.population.storage.population import Snapshot

_SUFFIX = re.compile(r"#[0-9a-f]{8}$")
_NOT_ASKED = {"name", "game", "seat", "policy", "fixed", "probes"}  # of a role: nothing that its player is shown


class KeptNotes(NamedTuple):
    """The notes of one player, wherever it plays."""

    run: Path  # where it wrote them; others of that run are named there by their ids
    texts: Mapping[str, str]  # by table (``notes.table_of``)
    places: tuple[Place, ...]  # of its cards


def card_digest(role: Role) -> str:
    """Return the first 64 bits of the SHA-256 of everything in a card that changes prompts, in hexadecimal."""
    content = role.model_dump(mode="json", exclude=_NOT_ASKED, exclude_defaults=True)
    return _digest(content)[:16]


def card_digests(roles: Roles) -> dict[str, str]:
    """Return the digest of each card of a run, by "GAME/ROLE"; fixed players of a role have their own."""
    return {
        f"{game}/{role.name}": card_digest(role) for game, seats in roles.items() for role in seats if not role.fixed
    }


def suffix(snapshot: Snapshot, own: Sequence[Role], played: Sequence[Role], *, notes: bool) -> str:
    """Return what follows a snapshot's name where it plays a game by other cards than its own, or without its notes.

    ``own`` are the cards of its run now, for games that it was not trained in. "": it plays as itself.
    """
    was = card_digests({role.game: tuple(own) for role in own}) | dict(snapshot.cards)
    now = card_digests({role.game: tuple(played) for role in played})
    forgets = bool(snapshot.notes) and not notes
    changed = {name: digest for name, digest in now.items() if was.get(name) != digest}
    return f"#{_digest([sorted(now.items()), forgets])[:8]}" if changed or forgets else ""


def without_suffix(identity: str) -> str:
    """Return a player's name without the digest of its card and notes."""
    return _SUFFIX.sub("", identity)


def check_cards(roles: Roles, snapshots: Iterable[Snapshot]) -> None:
    """Raise UsageError if a card of a run differs from the one that a snapshot was frozen with."""
    now = card_digests(roles)
    for snapshot in snapshots:
        changed = [name for name, digest in snapshot.cards.items() if now.get(name, digest) != digest]
        if changed:
            raise UsageError(
                f"The card of {changed[0]} is not the one that {snapshot.id} was frozen with, so its results are "
                "those of another player. Restore the card, or start a new run from its weights: --set "
                f"model.source=RUN, with a new --run-dir."
            )


def with_notes(requests: Iterable[MatchRequest], kept: Mapping[str, KeptNotes]) -> list[MatchRequest]:
    """Return matches with the notes that their players keep of the others at the table."""
    if not any(notes.places for notes in kept.values()):
        return list(requests)
    return [request._replace(given=(*request.given, *_given(request, kept))) for request in requests]


def _given(request: MatchRequest, kept: Mapping[str, KeptNotes]) -> list[tuple[int, str, str]]:
    texts = []
    for seat, identity in enumerate(request.players):
        notes = kept.get(identity)
        for game, place, slot in notes.places if notes else ():
            if notes is None or (game, place) != (request.game, seat):
                continue
            named = tuple([_named_in(notes.run, player) for player in request.players])
            if text := notes.texts.get(table_of(request._replace(players=named), seat, slot)):
                texts.append((seat, slot, text))
    return texts


@lru_cache(maxsize=4096)
def _named_in(run: Path, identity: str) -> str:
    """Return a player's name in a run: the id of its own snapshots, and lasting names of others'."""
    plain = without_suffix(identity)
    path, at, which = plain.rpartition("@")
    if not at or ":" in path.partition("/")[0]:
        return plain
    return which if Path(path).resolve() == run.resolve() else f"{Path(path).resolve()}@{which}"


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
