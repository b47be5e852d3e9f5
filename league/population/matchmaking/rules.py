"""Opponent rules: how often a policy meets each past player, or each line-up of them.

A rule maps an ``OpponentPool`` to the probability of each of its players [N], all 0 if it has none to offer. A rule
that needs a joint meta-strategy draws whole line-ups instead: ``rule(meta, seat, size, rng)``. In what follows learner
A meets player B with P(B), and x_B = P(A beats B).

To add a rule, write its function here and its entry below, with a weight of the same name in ``SharesConfig``; a plugin
passes it to ``league.register_matchmaking``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError
from games.common.registry import Entry, Registry
from league.config import RunConfig
from league.config.matchmaking import MatchmakingConfig
from league.population.matchmaking.league_roles import attacks_main, is_main, is_partner
from league.population.matchmaking.opponent_pool import (
    OpponentPool,
    alike_by_policy,
    normalised,
    prioritised,
    systematic_sample,
)
from league.population.storage.members import MetaStrategy

BEATEN, FORGOTTEN = 0.3, 0.7  # win rates below which AlphaStar's mains meet an exploiter, or a past main, again
MOST_TILT, TILT_STEPS = 1e6, 80  # of the search for ``even``

MIXTURE, JOINT = "mixture", "joint"  # the meta-strategies that a rule may need


def fictitious(pool: OpponentPool) -> NDArray[np.float64]:
    """Fictitious play: meet all past players with equal probability, P(B) = 1 / N [N]; no win rate is read.

    A best response to the average of past play is what fictitious play iterates (Brown 1951; Heinrich, Lanctot and
    Silver 2015, "Fictitious self-play in extensive-form games").
    """
    return np.full(len(pool.players), 1.0 / len(pool.players))


def pfsp(pool: OpponentPool) -> NDArray[np.float64]:
    """Prioritised fictitious self-play: meet the past players that are most informative to play [N].

    AlphaStar (Vinyals et al. 2019, Nature 575, "Methods: matchmaking"): P(B) = f(x_B) / Σ_C f(x_C), with
        hard      f(x) = (1 − x)²     those that beat A, as here
        variance  f(x) = x (1 − x)    those as strong as A, for main exploiters
    Where every weight is zero (A beats all of them) the draw is uniform.
    """
    return prioritised(pool.win_rates(), "hard")


def even(pool: OpponentPool) -> NDArray[np.float64]:
    """Opponents by curriculum: past players and guests so that half of the matches are won on average [N].

    Of all distributions with Σ P(B) x_B = 1/2 the one nearest to the uniform one, P(B) ∝ exp(−λ x_B): with half of the
    matches won, outcomes vary most. Where all are weaker, or all stronger, no mixture of them is even: then those as
    strong as the strongest, or the weakest, are met. Scripted players join by ``matchmaking.guests``.
    """
    rates = pool.win_rates()
    if rates.min() >= 0.5 or rates.max() <= 0.5:
        nearest = rates.min() if rates.min() >= 0.5 else rates.max()
        return normalised((rates == nearest).astype(np.float64))
    low, high = -MOST_TILT, MOST_TILT  # of λ; the mean win rate falls as it grows
    for _ in range(TILT_STEPS):
        middle = (low + high) / 2
        weights = tilted(rates, middle)
        low, high = (middle, high) if weights @ rates > 0.5 else (low, middle)
    return weights


def tilted(rates: NDArray[np.float64], tilt: float) -> NDArray[np.float64]:
    """Return exp(−λ x) / Σ exp(−λ x) [N]."""
    logits = -tilt * rates
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


def verification(pool: OpponentPool) -> NDArray[np.float64]:
    """Verification: meet past players that the learner forgot how to beat, and exploiters that found a weakness [N].

    The third branch of AlphaStar's main players (Vinyals et al. 2019, supplementary pseudocode): if the win rate
    against some main exploiter's snapshot is below ``BEATEN``, PFSP over those snapshots; else, if that against some
    past main is below ``FORGOTTEN``, PFSP over past mains, without the newest ones as long as each is harder than the
    one before it: their being hard is progress, not forgetting. All 0 if there is nothing to verify.
    """
    rates = pool.win_rates()
    chosen = np.flatnonzero([attacks_main(kind) for kind in pool.kinds])
    if not (len(chosen) and rates[chosen].min() < BEATEN):
        chosen = np.flatnonzero([is_main(kind) for kind in pool.kinds])
        chosen = chosen[: without_monotonic_suffix(rates[chosen])]
        if not (len(chosen) and rates[chosen].min() < FORGOTTEN):
            return np.zeros(len(pool.players))
    weights = np.zeros(len(pool.players))
    weights[chosen] = prioritised(rates[chosen], "hard")
    return weights


def without_monotonic_suffix(rates: NDArray[np.float64]) -> int:
    """Return how many of the rates [N], oldest first, are left without the newest ones that only fall."""
    for index in range(len(rates) - 1, 0, -1):
        if rates[index - 1] < rates[index]:
            return index + 1
    return 0


def uncertain(pool: OpponentPool) -> NDArray[np.float64]:
    """Information-seeking: meet the past players against whom the learner's win rate is least certain [N].

    After n matches with win rate x, the win rate has the posterior Beta(n x + 1, n (1 − x) + 1) under a uniform
    prior, and P(B) is in proportion to its standard deviation: greatest for players never met, and for equally
    strong ones.
    """
    deviations = np.sqrt(variance(pool.records[..., 0], pool.records[..., 1])).mean(axis=0)
    return np.asarray(deviations / deviations.sum())


def variance(score: NDArray[np.float64], matches: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the posterior variance of a win rate; without a match it is 1/12."""
    wins, losses = matches * score + 1.0, matches * (1.0 - score) + 1.0
    return wins * losses / ((matches + 2.0) ** 2 * (matches + 3.0))


def partners(pool: OpponentPool) -> NDArray[np.float64]:
    """Partners: learn to play with strangers, by meeting past partners who have agreed on other things [N].

    Fictitious co-play (Strouse et al. 2021, arXiv 2110.08176): partners of equal settings each learn only with
    themselves, so that each develops its own conventions; a player that meets all of them, from all stages of
    their training, learns to cooperate with unskilled partners too. The population grows with every snapshot, as in
    Gupta et al. 2021 (arXiv 2110.14241). Each of K partners is met equally often, and each of its n_k snapshots:
    P(B) = 1 / (K n_k). All 0 where there is no partner.
    """
    return alike_by_policy(pool, [is_partner(kind) for kind in pool.kinds])


def psro(pool: OpponentPool) -> NDArray[np.float64]:
    """Policy-space response oracles: meet past players as the meta-strategy weighs them [N].

    Lanctot et al. 2017 (arXiv 1711.00832): each epoch trains a response to the meta-strategy of the empirical game,
    which then joins the population. Here an epoch is the time between two snapshots, and the response is what training
    finds in it: P(B) = σ(B), fixed until the next snapshot; uniform where the meta-strategy has none of the players.
    """
    return normalised(np.array([pool.meta_weights.get(player, 0.0) for player in pool.players]))


def jpsro(meta: MetaStrategy, seat: int, size: int, rng: np.random.Generator) -> list[tuple[str, ...]]:
    """Joint PSRO: meet the line-ups of a correlated equilibrium of the population, for a policy that learns in a seat.

    Marris et al. 2021 (arXiv 2106.09435): the meta-strategy is a joint distribution σ over line-ups, so games of any
    number of players and sums have one. A response of player p trains against the others' part of it: σ(a_-p) for a
    coarse correlated equilibrium, σ(a_-p | a_p) for a correlated one, where a_p is the snapshot recommended to p, which
    p learns to beat. ``size`` line-ups are drawn, by systematic sampling.
    """
    recommended = meta.advised[seat] if meta.advised else None
    allowed = [(lineup, weight) for lineup, weight in meta.joint if recommended in (None, lineup[seat])]
    drawn = systematic_sample([weight for _, weight in allowed], size, rng)
    return [allowed[index][0] for index in drawn]


def check_partners(config: RunConfig) -> None:
    """Raise UsageError for a run that gives partners a weight but has none that may be met."""
    met = [name for name, kind in config.league_roles.items() if is_partner(kind) and not config.policy(name).held_out]
    if not met:
        raise UsageError(
            f"matchmaking.partners = {config.matchmaking.partners:g}, but the run has no partner that can be met. Add "
            "some: policies.NAME.league_role = 'partner', without held_out."
        )


OpponentRule = Entry[Callable[..., Any]]  # of a pool, to probabilities [N]; with JOINT, of a meta-strategy, to line-ups
OPPONENT_RULES: Registry[OpponentRule] = Registry(
    "matchmaking",
    "matchmaking rule",
    Entry,
    "matchmaking",
    {
        "fictitious": Entry(fictitious),
        "pfsp": Entry(pfsp),
        "even": Entry(even),
        "verification": Entry(verification),
        "uncertain": Entry(uncertain),
        "partners": Entry(partners, check=check_partners),
        "psro": Entry(psro, needs={MIXTURE}),
        "jpsro": Entry(jpsro, needs={JOINT}),
    },
    reserved=MatchmakingConfig.model_fields,
)
"""The rules by which main policies meet past players, by the name of their weight."""

register = OPPONENT_RULES.register  # a rule's weight is ``matchmaking.NAME``, described by the rule's docstring
