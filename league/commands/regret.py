"""``league regret``: what a player would have earned by playing otherwise, by rounds of a match or by matches."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from arena.remote.usage import Usage, in_words
from games.errors import UsageError
from games.registry import make_game
from games.seeds import derive_seed
from league.commands.words import interval, number
from league.exploitability import PolicyTable, head_to_head
from league.head_to_head import A, compare, student_quantile
from league.payoffs import Estimate
from league.player_engines import Engines
from league.players import Player, resolve
from league.regret import Growth, Regrets, external_regret, growth, swap_regret
from league.repeated import Floats, is_repeated, rounds_of, stage_game

SEQUENCES = 20  # of matches, each drawn anew
_LINEAR = 1.0 - 1e-6  # exponent of what grows as fast as the rounds, but for rounding
_PLURAL = {"match": "matches", "round": "rounds"}
_LEVEL = 0.05  # of the trend test


class Sequences(NamedTuple):
    """What a player did in one role, in several sequences of rounds, and what it might have done."""

    role: str
    alternatives: tuple[str, ...]  # [A]
    plays: Floats  # one-hot  # [N, T, A]
    payoffs: Floats  # of every alternative, all else as it was, in the game's units  # [N, T, A]


class RoleRegret(NamedTuple):
    """Regrets in one role. Means are per round, over sequences."""

    role: str
    alternatives: tuple[str, ...]  # [A]
    shares: tuple[float, ...]  # how often each was played  # [A]
    external: Estimate
    swap: Estimate
    uniform: Estimate  # external regret of playing all alternatives alike in the same rounds
    external_growth: Growth
    swap_growth: Growth


class Found(NamedTuple):
    """The regrets of a player against another."""

    players: tuple[str, str]
    game: str
    seed: int
    by_match: bool  # a round is a match; else one of a repeated game
    sequences: int  # a role
    rounds: int  # of one sequence
    roles: tuple[RoleRegret, ...]
    usage: dict[str, Usage]  # of players behind servers


def run(arguments: argparse.Namespace) -> Found:
    """Play or draw the rounds and compute the regrets."""
    spec = make_game(arguments.game).spec
    with Engines() as engines:
        player, opponent = (resolve(text, spec, engines) for text in (arguments.player, arguments.opponent))
        by_match = bool(arguments.alternatives) or not is_repeated(spec.name)
        if by_match:
            others = [resolve(text, spec, engines) for text in arguments.alternatives]
            seen = by_matches(player, opponent, others, arguments.matches, arguments.seed)
        else:
            seen = by_rounds(player, opponent, arguments.matches, arguments.seed)
        usage = engines.usage()
    count, rounds, _ = seen[0].plays.shape
    roles = tuple(role_regret(one) for one in seen)
    labels = player.label, opponent.label
    return Found(labels, spec.name, arguments.seed, by_match, count, rounds, roles, usage)


def by_rounds(player: Player, opponent: Player, matches: int, seed: int) -> list[Sequences]:
    """Play matches of a repeated game, and return each as one sequence, by seat.

    The other seats' moves count as they were, though they might have answered another action otherwise.
    A match that a forfeit cut short is left out.
    """
    stage, met = stage_game(player.spec.name), compare((player, opponent), matches, seed)
    found = []
    for seat, role in enumerate(player.roles):
        own = [
            rounds_of(stage, episode.turns, seat)
            for match, episode in zip(met.seated, met.episodes, strict=True)
            if match.seating[seat] == A
        ]
        whole = [one for one in own if len(one.actions) == stage.rounds]
        if not whole:
            raise UsageError(f"Not one of {len(own)} matches as {role.name} was played to its end: nothing to regret.")
        actions = stage.actions[seat]
        plays = np.eye(len(actions))[np.stack([one.actions for one in whole])]
        found.append(Sequences(role.name, actions, plays, np.stack([one.payoffs for one in whole])))
    return found


def by_matches(player: Player, opponent: Player, others: Sequence[Player], matches: int, seed: int) -> list[Sequences]:
    """Draw who plays in sequences of matches; return, by seat, what each of the player's members and others earns.

    What one earns in a match is its exact mean over deals and draws against the opponent's member of that match.
    """
    if player.spec.seats != 2:
        raise UsageError(f"Regret over matches is for two seats; {player.spec.name} has {player.spec.seats}.")
    if matches < 1:
        raise UsageError(f"--matches {matches}: at least one match must be drawn.")
    found, tables = [], _Tables()
    for seat, role in enumerate(player.roles):
        known: dict[str, Player] = {}  # its own members come first; others may have them too
        for one in (player, *others):
            for name, _ in one.members[seat]:
                known.setdefault(name, one)
        if len(known) < 2:
            raise UsageError(
                f"{player.label} is one player, so it has nothing else to be. Name others it might have been with "
                "--alternatives, or give a mixture (RUN@mixture) or a repeated game."
            )
        rivals = opponent.members[1 - seat]
        values = np.array(
            [[tables.value(one, name, opponent, rival, seat) for rival, _ in rivals] for name, one in known.items()]
        )  # [A, rivals]
        generator = np.random.default_rng(derive_seed(seed, "regret", player.spec.name, seat))
        weights = [np.array([weight for _, weight in members]) for members in (player.members[seat], rivals)]
        own, met = (generator.choice(len(weight), (SEQUENCES, matches), p=weight / weight.sum()) for weight in weights)
        plays = np.eye(len(known))[own]
        found.append(Sequences(role.name, tuple(known), plays, values.T[met]))
    return found


class _Tables:
    """Policies of single members as tables, each made once."""

    def __init__(self) -> None:
        self._made: dict[str, PolicyTable] = {}

    def value(self, one: Player, name: str, opponent: Player, rival: str, seat: int) -> float:
        """Return what a member earns in a seat against the opponent's ``rival``, in the game's units."""
        tables = [self._of(one, name), self._of(opponent, rival)]
        return head_to_head(tables if seat == 0 else tables[::-1])[seat]

    def _of(self, player: Player, name: str) -> PolicyTable:
        if name not in self._made:
            alone = Player(name, player.spec, player.engine, player.roles, (((name, 1.0),),) * player.spec.seats)
            self._made[name] = alone.tabulate().table
        return self._made[name]


def role_regret(seen: Sequences) -> RoleRegret:
    """Return the regrets of one role."""
    pairs = list(zip(seen.plays, seen.payoffs, strict=True))
    external = np.stack([external_regret(plays, payoffs) for plays, payoffs in pairs])
    swap = np.stack([swap_regret(plays, payoffs) for plays, payoffs in pairs])
    even = np.full_like(seen.plays[0], 1.0 / len(seen.alternatives))
    uniform = np.stack([external_regret(even, payoffs) for payoffs in seen.payoffs])
    return RoleRegret(
        role=seen.role,
        alternatives=seen.alternatives,
        shares=tuple(seen.plays.mean(axis=(0, 1)).tolist()),
        external=_per_round(external),
        swap=_per_round(swap),
        uniform=_per_round(uniform),
        external_growth=growth(external),
        swap_growth=growth(swap),
    )


def _per_round(regrets: Regrets) -> Estimate:
    """Return the mean regret a round at the end, with Student's interval over sequences."""
    last = regrets[:, -1] / regrets.shape[1]
    if len(last) == 1:
        return Estimate(float(last[0]), None, None)
    half = student_quantile(len(last) - 1) * last.std(ddof=1) / np.sqrt(len(last))
    return Estimate(float(last.mean()), float(last.mean() - half), float(last.mean() + half))


def document(found: Found) -> dict[str, Any]:
    """Return the result as JSON data. What is not known is null."""
    return {
        "game": found.game,
        "players": list(found.players),
        "seed": found.seed,
        "round": "match" if found.by_match else "round",
        "sequences": found.sequences,
        "rounds": found.rounds,
        "roles": {one.role: _role_document(one) for one in found.roles},
        "usage": {player: usage._asdict() for player, usage in found.usage.items()},
    }


def _role_document(one: RoleRegret) -> dict[str, Any]:
    return {
        "shares": dict(zip(one.alternatives, one.shares, strict=True)),
        **_flat("external", one.external),
        **_flat("swap", one.swap),
        **_flat("uniform", one.uniform),
        **_growth_document("external", one.external_growth),
        **_growth_document("swap", one.swap_growth),
    }


def _growth_document(name: str, grown: Growth) -> dict[str, Any]:
    exponent = grown.exponent or Estimate(float("nan"), None, None)
    known = grown.exponent is not None
    return {
        f"{name}_trend": grown.trend,
        f"{name}_exponent": exponent.mean if known else None,
        f"{name}_exponent_low": exponent.low,
        f"{name}_exponent_high": exponent.high,
    }


def _flat(name: str, estimate: Estimate) -> dict[str, float | None]:
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def tell(found: Found, console: Console) -> None:
    """Print the result in words."""
    player, opponent = found.players
    unit = "match" if found.by_match else "round"
    console.print(f"{player}'s regret against {opponent} in {found.game}", style="bold")
    console.print(f"{found.sequences} sequences of {found.rounds} {_PLURAL[unit]} in each role (seed {found.seed}).")
    console.print(
        f"Regret is what it would have earned more, per {unit}: external by the one alternative that was best in "
        "hindsight, swap by the best replacement for each alternative it chose. The others' moves count as they were."
    )
    for one in found.roles:
        console.print(f"\nas {one.role}", style="bold")
        shares = ", ".join(f"{name} {share:.0%}" for name, share in zip(one.alternatives, one.shares, strict=True))
        console.print(f"  plays {shares}", markup=False)
        console.print(f"  external regret {interval(one.external, True)} a {unit}: {_told(one.external_growth, unit)}")
        console.print(f"  swap regret {interval(one.swap, True)} a {unit}: {_told(one.swap_growth, unit)}")
        console.print(
            f"  playing all alternatives alike would have had external regret {number(one.uniform.mean, True)}"
        )
    for line in in_words(found.usage):
        console.print(f"\n{line}", markup=False)


def _told(grown: Growth, unit: str) -> str:
    """Return in words how a regret grows."""
    trend = "" if grown.trend is None else f" The mean a {unit} falls steadily (p = {grown.trend:.2g})."
    if grown.trend is not None and grown.trend > _LEVEL:
        trend = f" The mean a {unit} does not fall steadily (p = {grown.trend:.2g})."
    if grown.exponent is None:
        return f"too seldom positive for a power law.{trend}"
    mean, low, high = grown.exponent
    text = f"it grows as the {_PLURAL[unit]} to the power {number(mean)}"
    if low is None or high is None:
        return f"{text}, with no interval.{trend}"
    if high < _LINEAR:
        verdict = "slower than they do, as no-regret play has it."
    else:
        verdict = "no slower than they do." if mean >= _LINEAR else "which does not show whether slower than they do."
    return f"{text} ({number(low)} to {number(high)}), {verdict}{trend}"
