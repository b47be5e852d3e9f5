"""The strangers of a run: partners that are held out of training, for a score of ad-hoc teamwork."""

from __future__ import annotations

from collections.abc import Sequence

from games.spec import GameSpec
from league.config import RunConfig
from league.config.load import seat_roles
from league.population.storage.population import Snapshot


def newest_strangers(config: RunConfig, spec: GameSpec, snapshots: Sequence[Snapshot]) -> list[str]:
    """Return the newest snapshot of each partner that is held out; none where roles have different policies."""
    if spec.seats < 2 or len({role.policy for role in seat_roles(config.roles, spec) if not role.given}) != 1:
        return []
    newest = {snapshot.policy: snapshot.id for snapshot in snapshots if config.policy(snapshot.policy).held_out}
    return list(newest.values())
