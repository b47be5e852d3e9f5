"""League roles: a policy's purpose in the league. A role says which seats it takes, whom it meets, and its life cycle.

``policies.NAME.league_role`` chooses one. Main policies are those that the games' roles are bound to; all others train
in their own share of the matches (``exploiters.share``), freeze into the population, and may be reset. AlphaStar
(Vinyals et al. 2019, Nature 575) has the two exploiters; partners are of fictitious co-play (Strouse et al. 2021, arXiv
2110.08176).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.common.registry import Entry, Registry
from league.config.matchmaking import ExploitersConfig
from league.population.matchmaking.opponent_pool import OpponentPool, alike_by_policy, prioritised
from league.population.storage.members import GUEST, Kind


class Seats(Enum):
    """Which seats a policy takes in the matches that train it."""

    BOUND = "those of the roles bound to it"
    EACH = "each seat in turn, among opponents"
    ALL = "all seats at once, with itself; with exploiters.together each in turn, too"


class FreezeFacts(NamedTuple):
    """The facts for deciding whether a policy freezes. In win rates a draw counts 1/2."""

    age: int  # iterations since it was frozen last
    mains: Sequence[str]  # the live main policies
    past: Sequence[str]  # the population: snapshots and guests
    lowest_rate: Callable[[Sequence[str]], float]  # its lowest rate against any of these players, a mean over games


Opponents = Callable[[OpponentPool, ExploitersConfig], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class LeagueRole(Entry[Opponents]):
    """A league role. ``make`` weighs whom it meets: ``make(pool, exploiters)`` returns probabilities [N].

    With ``Seats.EACH`` the pool begins with the live main policy, then has the past players that may take its seat;
    with ``Seats.ALL`` it has the other policies' past players, and nobody is met where all weights are 0. A plugin's
    own settings are ``exploiters.NAME``.
    """

    seats: Seats = Seats.EACH
    # Whether it is frozen after an iteration; None: whenever main policies are due, by ``snapshot_every``.
    freeze_when: Callable[[FreezeFacts, ExploitersConfig], bool] | None = None
    # Whether it is reset to its initial weights once it is frozen, by a number drawn evenly from 0 to 1; None: never.
    reset_when: Callable[[float, ExploitersConfig], bool] | None = None
    cooperates: bool = False  # whether it is a partner, whose snapshots mains meet by the rule ``partners``
    attacks_main: bool = False  # whether it looks for weaknesses of main policies, which ``verification`` brings back

    @property
    def bound(self) -> bool:
        """Whether games' roles are bound to it, which makes it a main policy."""
        return self.seats is Seats.BOUND

    def least_groups(self, free_seats: int) -> int:
        """Return the fewest groups of matches in which it can learn, in a game with so many seats to take."""
        return free_seats if self.seats is Seats.EACH else 1


def by_shares(pool: OpponentPool, _config: ExploitersConfig) -> NDArray[np.float64]:
    """Roles are bound to it; it meets itself and the population by the shares of ``[matchmaking]``."""
    raise NotImplementedError("a main policy's opponents are drawn by the rules of [matchmaking]")


def main_exploiter(pool: OpponentPool, config: ExploitersConfig) -> NDArray[np.float64]:
    """Find weaknesses of the main policy as it is now [N].

    AlphaStar: it meets the live main policy; while it wins less than ``hopeless`` of those matches it would learn
    little from them, and meets main's snapshots by f_var(x) = x (1 - x) instead.
    """
    mains = np.flatnonzero([is_main(kind) for kind in pool.kinds])
    rates, weights = pool.win_rates(), np.zeros(len(pool.players))
    if rates[mains[0]] >= config.hopeless or len(mains) == 1:
        weights[mains[0]] = 1.0
    else:
        weights[mains[1:]] = prioritised(rates[mains[1:]], "variance")
    return weights


def league_exploiter(pool: OpponentPool, _config: ExploitersConfig) -> NDArray[np.float64]:
    """Find weaknesses of the whole league, by PFSP over every past player [N]; over the live main if there is none."""
    if len(pool.players) == 1:
        return np.ones(1)
    return np.concatenate([np.zeros(1), prioritised(pool.win_rates()[1:], "hard")])


def partner(pool: OpponentPool, _config: ExploitersConfig) -> NDArray[np.float64]:
    """Develop its own conventions: learn only with itself, or also with other partners' snapshots [N]."""
    return alike_by_policy(pool, [is_partner(kind) for kind in pool.kinds])


def beats_main(facts: FreezeFacts, config: ExploitersConfig) -> bool:
    """Return whether an exploiter wins often enough against every live main, or has had its time."""
    return _ready(facts, facts.mains, config)


def beats_all(facts: FreezeFacts, config: ExploitersConfig) -> bool:
    """Return whether an exploiter wins often enough against every past player, or has had its time."""
    return _ready(facts, facts.past, config)


def _ready(facts: FreezeFacts, targets: Sequence[str], config: ExploitersConfig) -> bool:
    if facts.age >= config.freeze_after:
        return True
    return facts.age >= config.freeze_from and facts.lowest_rate(targets) > config.freeze_at


def always(_drawn: float, _config: ExploitersConfig) -> bool:
    """Return True."""
    return True


def by_chance(drawn: float, config: ExploitersConfig) -> bool:
    """Return True with the probability ``exploiters.league_reset``."""
    return drawn < config.league_reset


LEAGUE_ROLES: Registry[LeagueRole] = Registry(
    "league_roles",
    "league role",
    LeagueRole,
    "policies.NAME.league_role",
    {
        "main": LeagueRole(by_shares, seats=Seats.BOUND),
        "main_exploiter": LeagueRole(main_exploiter, freeze_when=beats_main, reset_when=always, attacks_main=True),
        "league_exploiter": LeagueRole(league_exploiter, freeze_when=beats_all, reset_when=by_chance),
        "partner": LeagueRole(partner, seats=Seats.ALL, cooperates=True),
    },
    reserved=(*ExploitersConfig.model_fields, GUEST),
)
register = LEAGUE_ROLES.register


def is_main(kind: Kind) -> bool:
    """Return whether a player is, or is a snapshot of, a main policy."""
    return kind != GUEST and LEAGUE_ROLES[kind].bound


def is_partner(kind: Kind) -> bool:
    """Return whether a player is a snapshot of a policy that others learn with, not against."""
    return kind != GUEST and LEAGUE_ROLES[kind].cooperates


def attacks_main(kind: Kind) -> bool:
    """Return whether a player is a snapshot of a policy that looks for weaknesses of main policies."""
    return kind != GUEST and LEAGUE_ROLES[kind].attacks_main
