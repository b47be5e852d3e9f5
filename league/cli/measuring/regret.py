"""``league lab regret``: a player's regret over the rounds of a repeated game, or over matches of a small one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from games.aliases import short_name
from games.common.errors import UsageError
from league.cli.formatting import estimate_to_json, format_interval, format_number, print_usage
from league.cli.parser import (
    COUNT,
    PLAYERS,
    Parser,
    add_game_option,
    add_json_option,
    add_player_options,
    add_seed_option,
)

if TYPE_CHECKING:
    from rich.console import Console

    from arena.remote.usage import Usage
    from games.openspiel.repeated import Floats
    from league.population.evaluation.regret import RegretGrowth, Regrets
    from league.population.players.player import Player
    from league.theory.exact.exploitability import PolicyTable
    from league.theory.statistics import Estimate

EXAMPLES = ("always:defect random --game ipd", "runs/pocket random --game kuhn_poker --alternatives equilibrium")
NOTES = PLAYERS
SEQUENCES = 20  # independent sequences of matches
_LINEAR = 1.0 - 1e-6  # exponent of linear growth, up to rounding
_PLURAL = {"match": "matches", "round": "rounds"}
_LEVEL = 0.05  # significance level of the trend test


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("player", metavar="PLAYER")
    parser.add_argument("opponent", metavar="OPPONENT")
    add_game_option(parser)
    parser.add_argument("--matches", type=COUNT, default=400, metavar="N", help="at least this many (default: 400)")
    add_seed_option(parser)
    parser.add_argument(
        "--alternatives",
        nargs="+",
        default=[],
        metavar="PLAYER",
        help="players to compare with; measures regret over matches of a small game instead of over rounds of a "
        "repeated one",
    )
    add_player_options(parser)
    add_json_option(parser)


class Sequences(NamedTuple):
    """A player's plays in one role, in several sequences of rounds, and the payoffs of all alternatives."""

    role: str
    alternatives: tuple[str, ...]  # [A]
    plays: Floats  # one-hot  # [N, T, A]
    payoffs: Floats  # of every alternative, all else unchanged, in the game's units  # [N, T, A]


class RoleRegret(NamedTuple):
    """The regrets in one role: means per round, over sequences."""

    role: str
    alternatives: tuple[str, ...]  # [A]
    shares: tuple[float, ...]  # of the rounds in which each was played  # [A]
    external: Estimate
    swap: Estimate
    uniform: Estimate  # external regret of playing every alternative with the same probability in the same rounds
    external_growth: RegretGrowth
    swap_growth: RegretGrowth


class RegretReport(NamedTuple):
    """The regrets of a player against another."""

    players: tuple[str, str]
    game: str
    seed: int
    by_match: bool  # whether a round is a match, or a round of a repeated game
    sequences: int  # for each role
    rounds: int  # of each sequence
    roles: tuple[RoleRegret, ...]
    usage: dict[str, Usage]  # of players behind servers


def run(arguments: argparse.Namespace) -> RegretReport:
    """Play the rounds of a repeated game, or draw matches of a small game, and compute the regrets."""
    from games.openspiel.repeated import is_repeated
    from games.registry import make_game
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.population.players.settings import PlayerSettings

    spec = make_game(arguments.game).spec
    with Engines(PlayerSettings.of(arguments)) as engines:
        player, opponent = (resolve(text, spec, engines) for text in (arguments.player, arguments.opponent))
        engines.check_settings([arguments.player, arguments.opponent])
        by_match = bool(arguments.alternatives) or not is_repeated(spec.name)
        if by_match:
            alternatives = [resolve(text, spec, engines) for text in arguments.alternatives]
            sequences = sequences_of_matches(player, opponent, alternatives, arguments.matches, arguments.seed)
        else:
            sequences = sequences_of_rounds(player, opponent, arguments.matches, arguments.seed)
        usage = engines.usage()
    count, rounds, _ = sequences[0].plays.shape
    roles = tuple(role_regret(role_sequences) for role_sequences in sequences)
    labels = player.label, opponent.label
    return RegretReport(labels, spec.name, arguments.seed, by_match, count, rounds, roles, usage)


def sequences_of_rounds(player: Player, opponent: Player, matches: int, seed: int) -> list[Sequences]:
    """Play matches of a repeated game and return, by seat, each match as a sequence of rounds.

    The other seats' actions are taken as played, although they might have reacted to another action.
    A match that ended early by forfeit is left out. Raises UsageError if all matches of a role did.
    """
    import numpy as np

    from games.openspiel.repeated import stage_game
    from league.population.evaluation.head_to_head import A, compare
    from league.training.evidence.counterfactuals import seat_rounds

    stage, result = stage_game(player.spec.name), compare((player, opponent), matches, seed)
    sequences = []
    for seat, role in enumerate(player.roles):
        played = [
            seat_rounds(stage, episode.turns, seat)
            for match, episode in zip(result.matches, result.episodes, strict=True)
            if match.seating[seat] == A
        ]
        complete = [rounds for rounds in played if len(rounds.actions) == stage.rounds]
        if not complete:
            raise UsageError(
                f"All {len(played)} matches as {role.name} ended early by forfeit, so no regret can be computed. Play "
                "more with --matches, or choose players whose replies are legal."
            )
        actions = stage.actions[seat]
        plays = np.eye(len(actions))[np.stack([rounds.actions for rounds in complete])]
        sequences.append(Sequences(role.name, actions, plays, np.stack([rounds.payoffs for rounds in complete])))
    return sequences


def sequences_of_matches(
    player: Player, opponent: Player, alternatives: Sequence[Player], matches: int, seed: int
) -> list[Sequences]:
    """Draw which members play in sequences of matches; return, by seat, the payoffs of all possible members.

    These are the player's members and its alternatives'. The payoff of a member in a match is its exact mean return
    over deals and draws against the opponent's member of that match.
    """
    import numpy as np

    from games.common.seeds import derive_seed

    if player.spec.seats != 2:
        raise UsageError(f"Regret over matches is for two seats; {player.spec.name} has {player.spec.seats}.")
    if matches < 1:
        raise UsageError(f"--matches {matches}: at least one match must be drawn.")
    sequences, tables = [], _MemberTables()
    for seat, role in enumerate(player.roles):
        candidates = _candidates(player, alternatives, seat)
        rivals = opponent.members[1 - seat]
        values = np.array(
            [
                [tables.value(candidate, member, opponent, rival, seat) for rival, _ in rivals]
                for member, candidate in candidates.items()
            ]
        )  # [A, rivals]
        generator = np.random.default_rng(derive_seed(seed, "regret", player.spec.name, seat))
        weights = [np.array([weight for _, weight in members]) for members in (player.members[seat], rivals)]
        indices, rival_indices = (generator.choice(len(w), (SEQUENCES, matches), p=w / w.sum()) for w in weights)
        plays = np.eye(len(candidates))[indices]
        sequences.append(Sequences(role.name, tuple(candidates), plays, values.T[rival_indices]))
    return sequences


def _candidates(player: Player, alternatives: Sequence[Player], seat: int) -> dict[str, Player]:
    """Return the members that may play in a seat, with the player of each; the player's own members come first.

    Raises UsageError where there is only one.
    """
    candidates: dict[str, Player] = {}
    for candidate in (player, *alternatives):
        for member, _ in candidate.members[seat]:
            candidates.setdefault(member, candidate)
    if len(candidates) < 2:
        raise UsageError(
            f"{player.label} is a single player, so it has no alternative to regret. Name alternatives with "
            "--alternatives, or give a mixture (RUN@mixture) or a repeated game."
        )
    return candidates


class _MemberTables:
    """The policy tables of single members of players, each computed once."""

    def __init__(self) -> None:
        self._tables: dict[str, PolicyTable] = {}

    def value(self, player: Player, member: str, opponent: Player, rival: str, seat: int) -> float:
        """Return the mean return of a member in a seat against the opponent's ``rival``, in the game's units."""
        from league.theory.exact.exploitability import head_to_head

        tables = [self._table(player, member), self._table(opponent, rival)]
        return head_to_head(tables if seat == 0 else tables[::-1])[seat]

    def _table(self, player: Player, member: str) -> PolicyTable:
        from league.population.players.player import Player

        if member not in self._tables:
            members = (((member, 1.0),),) * player.spec.seats
            alone = Player(member, player.spec, player.engine_of(member), player.roles, members)
            self._tables[member] = alone.tabulate().table
        return self._tables[member]


def role_regret(sequences: Sequences) -> RoleRegret:
    """Return the regrets of one role."""
    import numpy as np

    from league.population.evaluation.regret import external_regret, regret_growth, swap_regret

    pairs = list(zip(sequences.plays, sequences.payoffs, strict=True))
    external = np.stack([external_regret(plays, payoffs) for plays, payoffs in pairs])
    swap = np.stack([swap_regret(plays, payoffs) for plays, payoffs in pairs])
    uniform_plays = np.full_like(sequences.plays[0], 1.0 / len(sequences.alternatives))
    uniform = np.stack([external_regret(uniform_plays, payoffs) for payoffs in sequences.payoffs])
    return RoleRegret(
        role=sequences.role,
        alternatives=sequences.alternatives,
        shares=tuple(sequences.plays.mean(axis=(0, 1)).tolist()),
        external=_per_round(external),
        swap=_per_round(swap),
        uniform=_per_round(uniform),
        external_growth=regret_growth(external),
        swap_growth=regret_growth(swap),
    )


def _per_round(regrets: Regrets) -> Estimate:
    """Return the final regret divided by the rounds, with Student's interval over sequences."""
    import numpy as np

    from league.theory.statistics import Estimate, student_quantile

    means = regrets[:, -1] / regrets.shape[1]
    if len(means) == 1:
        return Estimate(float(means[0]), None, None)
    half = student_quantile(len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
    return Estimate(float(means.mean()), float(means.mean() - half), float(means.mean() + half))


def to_json(report: RegretReport) -> dict[str, Any]:
    """Return the report as JSON data. Values that were not computed are null."""
    return {
        "game": report.game,
        "players": list(report.players),
        "seed": report.seed,
        "round": "match" if report.by_match else "round",
        "sequences": report.sequences,
        "rounds": report.rounds,
        "roles": {regret.role: _role_to_json(regret) for regret in report.roles},
        "usage": {player: usage._asdict() for player, usage in report.usage.items()},
    }


def _role_to_json(regret: RoleRegret) -> dict[str, Any]:
    return {
        "shares": dict(zip(regret.alternatives, regret.shares, strict=True)),
        **estimate_to_json("external", regret.external),
        **estimate_to_json("swap", regret.swap),
        **estimate_to_json("uniform", regret.uniform),
        **_growth_to_json("external", regret.external_growth),
        **_growth_to_json("swap", regret.swap_growth),
    }


def _growth_to_json(name: str, growth: RegretGrowth) -> dict[str, Any]:
    mean, low, high = growth.exponent or (None, None, None)
    return {
        f"{name}_trend": growth.trend,
        f"{name}_exponent": mean,
        f"{name}_exponent_low": low,
        f"{name}_exponent_high": high,
    }


def print_report(report: RegretReport, console: Console) -> None:
    """Print the regrets of each role and how they grow."""
    player, opponent = report.players
    unit = "match" if report.by_match else "round"
    console.print(f"{player}'s regret against {opponent} in {short_name(report.game)}", style="bold")
    console.print(f"{report.sequences} sequences of {report.rounds} {_PLURAL[unit]} in each role (seed {report.seed}).")
    console.print(
        f"Regret is how much more it would have earned per {unit}: external, by the one alternative that was best in "
        "hindsight; swap, by the best replacement for each alternative it chose. The others' moves stay as they were."
    )
    for role in report.roles:
        console.print(f"\nas {role.role}", style="bold")
        shares = ", ".join(f"{name} {share:.0%}" for name, share in zip(role.alternatives, role.shares, strict=True))
        console.print(f"  plays {shares}", markup=False)
        for kind, estimate, growth in (
            ("external", role.external, role.external_growth),
            ("swap", role.swap, role.swap_growth),
        ):
            text = f"  {kind} regret {format_interval(estimate, True)} a {unit}: {_describe_growth(growth, unit)}"
            console.print(text)
        console.print(
            "  playing all alternatives equally would have had external regret "
            f"{format_number(role.uniform.mean, True)}"
        )
    print_usage(report.usage, console)


def _describe_growth(growth: RegretGrowth, unit: str) -> str:
    """Return a sentence or two on how a regret grows."""
    trend = "" if growth.trend is None else f" The mean a {unit} falls steadily (p = {growth.trend:.2g})."
    if growth.trend is not None and growth.trend > _LEVEL:
        trend = f" The mean a {unit} does not fall steadily (p = {growth.trend:.2g})."
    if growth.exponent is None:
        return f"too rarely positive for a power law.{trend}"
    mean, low, high = growth.exponent
    text = f"it grows as the {_PLURAL[unit]} to the power {format_number(mean)}"
    if low is None or high is None:
        return f"{text}, with no interval.{trend}"
    if high < _LINEAR:
        verdict = "slower than they do, as in no-regret play."
    else:
        verdict = "no slower than they do." if mean >= _LINEAR else "which does not show whether slower than they do."
    return f"{text} ({format_number(low)} to {format_number(high)}), {verdict}{trend}"
