"""Which figures a run's board has, and from which numbers each is drawn. Nothing is drawn before it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean, pstdev
from typing import Any, NamedTuple

import numpy as np

from games.aliases import short_name
from games.spec import GameSpec
from league.population.evaluation.strategies import GameStrategy
from league.population.results.ratings import Ratings
from league.population.storage.population import Snapshot
from league.theory.statistics import PERCENTILES, Z_95
from league.training.board.comparison import Comparison
from league.training.board.figures import beliefs, matrix, population, strategy, training
from league.training.board.figures.canvas import Pixels
from league.training.board.questions import BEATS, BREAKING, CHANGE, DOING, LEARNING
from league.training.monitors.alarms import Alarm
from league.training.monitors.conduct import RoleConduct
from league.training.monitors.phases import PHASES

# The metrics whose history figures need.
KEPT = re.compile(
    r"^(alarms|time|memory)/|^seconds$|/(mixture_)?exploitability$|/return$|/judge/|/(best_)?welfare$|/pareto_share$|/ce_gap$|/score_against_|^rating|/replies/|equilibrium_distance|/belief/.+/\d+$|/information/\d+$|^curriculum/"
)
EARNED = {  # first where interests are common or mixed
    "return": "joint return",
    "welfare": "welfare",
    "best_welfare": "best possible",
    "pareto_share": "Pareto share",
    "ce_gap": "CE gap",
}
MEASURES = {
    "exploitability": "exploitability",
    "mixture_exploitability": "… of mixture",
    "equilibrium_distance": "from equilibria",
    "return": "joint return",
    "judge/agreement": "judge right",
    "judge/position_bias": "judge's position bias",
}
REPLY_KINDS = ("legal", "tool", "retried", "illegal", "truncated")


class Subject(NamedTuple):
    """All that figures are drawn from."""

    iteration: int
    specs: Mapping[str, GameSpec]
    history: Sequence[Mapping[str, Any]]  # metrics by iteration
    mixtures: Sequence[Mapping[str, Any]]  # by snapshot's iteration: game, seat, player
    alarms: Sequence[Alarm]  # that ring now
    strategies: Mapping[str, GameStrategy]
    comparisons: Mapping[str, Comparison]
    conducts: Sequence[RoleConduct]
    snapshots: Sequence[Snapshot]
    retired: set[str]
    ratings: Ratings
    anchors: Sequence[str]

    def of_game(self, game: str) -> list[RoleConduct]:
        """Return the conduct of a game's roles."""
        return [conduct for conduct in self.conducts if conduct.game == game]


Task = Callable[[], Pixels]


def figures(subject: Subject) -> dict[str, Task]:
    """Return by name how to draw each figure that there is something for, the most important first."""
    tasks: dict[str, Task] = {
        f"{BREAKING}/alarms": partial(_alarms, subject),
        f"{LEARNING}/learning": partial(_learning, subject),
        **_over_games(subject),
    }
    for game, played in subject.strategies.items():
        tasks[f"{DOING}/strategy/{game}"] = partial(_strategy, game, played)
    for game in subject.specs:
        if game not in subject.strategies and (mine := subject.of_game(game)):
            tasks[f"{DOING}/actions/{game}"] = partial(_actions, game, mine)
    for game in subject.specs:
        if _by_number(subject, f"{game}/information/"):
            tasks[f"{DOING}/beliefs/{game}"] = partial(_beliefs, subject, game)
    for game, comparison in subject.comparisons.items():
        if len(comparison.players) > 1:
            tasks[f"{BEATS}/payoffs/{game}"] = partial(_payoffs, comparison)
            tasks[f"{BEATS}/wins/{game}"] = partial(_wins, comparison)
    tasks[f"{BEATS}/population"] = partial(_population, subject)
    if any("time/rest" in line for line in subject.history):
        tasks[f"{CHANGE}/time"] = partial(_time, subject)
    for game in subject.specs:
        tasks |= _details(subject, game)
    return tasks


def _details(subject: Subject, game: str) -> dict[str, Task]:
    """Return the figures of one game that are looked at after the others."""
    tasks: dict[str, Task] = {}
    if mine := subject.of_game(game):
        tasks[f"{CHANGE}/credit/{game}"] = partial(_credit, game, mine)
        if any(conduct.replies for conduct in mine):
            tasks[f"{BREAKING}/replies/{game}"] = partial(_replies, subject, game)
    if subject.ratings.ranking(game):
        tasks[f"{LEARNING}/ratings/{game}"] = partial(_ratings, subject, game)
    if any(line.get(game) for line in subject.mixtures):
        tasks[f"{BEATS}/mixture/{game}"] = partial(_mixture, subject, game)
    return tasks


def _series(subject: Subject, name: str) -> tuple[list[int], list[float]]:
    """Return the iterations and values of a metric."""
    found = [(line["iteration"], line[name]) for line in subject.history if name in line]
    return [step for step, _ in found], [value for _, value in found]


def _by_number(subject: Subject, prefix: str) -> list[dict[int, float]]:
    """Return what follows a prefix with a number, by that number: in the newest iteration that has it, then the first.

    The first one is left out where it is the newest.
    """
    found: list[dict[int, float]] = []
    for line in subject.history:
        numbers = {name.removeprefix(prefix): value for name, value in line.items() if name.startswith(prefix)}
        if mine := {int(number): numbers[number] for number in sorted(numbers, key=len) if number.isdecimal()}:
            found.append(dict(sorted(mine.items())))
    return [found[-1], *([found[0]] if len(found) > 1 else [])] if found else []


def _beliefs(subject: Subject, game: str) -> Pixels:
    names = [name for line in subject.history for name in line if name.startswith(f"{game}/belief/")]
    roles = dict.fromkeys(name.removeprefix(f"{game}/belief/").rpartition("/")[0] for name in names)
    belief = {role: _by_number(subject, f"{game}/belief/{role}/") for role in roles}
    title = f"{short_name(game)}: what do they believe?"
    return beliefs.draw_beliefs(title, belief, _by_number(subject, f"{game}/information/")[0])


def _alarms(subject: Subject) -> Pixels:
    names = sorted({name for line in subject.history for name in line if name.startswith("alarms/")})
    rows = []
    for name in names:
        steps, values = _series(subject, name)
        short = name.removeprefix("alarms/")
        rang = [step for step, value in zip(steps, values, strict=True) if value]
        rows.append(training.Ringing(short, rang, [str(a) for a in subject.alarms if a.name == short]))
    return training.draw_alarms("Is it breaking?", rows, subject.iteration)


def _learning(subject: Subject) -> Pixels:
    panels: dict[str, list[training.Curve]] = {}
    for game, spec in subject.specs.items():
        against = sorted({n for line in subject.history for n in line if n.startswith(f"{game}/score_against_")})
        measures = MEASURES if spec.competitive else EARNED | MEASURES
        names = {f"{game}/{name}": label for name, label in measures.items()}
        curves = [training.Curve(label, *_series(subject, name)) for name, label in names.items()]
        curves = [curve for curve in curves if curve.steps]
        if not curves:
            labels = {name: name.removeprefix(f"{game}/").replace("_", " ") for name in against}
            curves = [training.Curve(label, *_series(subject, name)) for name, label in labels.items()]
        if curves:
            panels[game] = curves
    rating = training.Curve("rating", *_series(subject, "rating"))
    if rating.steps:
        panels["newest snapshot"] = [rating]
    return training.draw_curves("Is it learning?", panels)


def _over_games(subject: Subject) -> dict[str, Task]:
    """Return the figure of normalised percentiles over games and of how many are trained, if games are judged."""
    names = {f"curriculum/percentile_{p}": f"{p}th percentile" for p in PERCENTILES}
    curves = [training.Curve(label, *_series(subject, name)) for name, label in names.items()]
    if not any(curve.steps for curve in curves):
        return {}
    active = training.Curve("games", *_series(subject, "curriculum/active"))
    panels = {"score as a share of the best so far": curves, "games that are trained": [active]}
    return {f"{LEARNING}/games": partial(training.draw_curves, "How well over all games?", panels)}


def _strategy(game: str, played: GameStrategy) -> Pixels:
    panels = [
        strategy.StatePanel(
            state.title,
            [
                strategy.ActionLine(action.label, played.steps, values, action.low, action.high)
                for action, values in zip(state.actions, rows, strict=True)
            ],
        )
        for state, rows in zip(played.states, played.probabilities, strict=True)
    ]
    return strategy.draw_strategy(f"{game}: what does it do?", panels, played.named)


def _actions(game: str, conducts: Sequence[RoleConduct]) -> Pixels:
    shares = {
        conduct.role: {
            f"turn {turn}": {action: count / counts.total() for action, count in counts.items()}
            for turn, counts in enumerate(conduct.actions_by_turn, 1)
            if counts
        }
        for conduct in conducts
    }
    return strategy.draw_actions(f"{game}: what does it play?", shares)


def _payoffs(comparison: Comparison) -> Pixels:
    chosen = comparison.shown()
    index = np.ix_(chosen, chosen)
    means = comparison.means[index].copy()
    np.fill_diagonal(means, np.nan)
    halves = None if comparison.errors is None else comparison.errors[index] * Z_95
    finite = np.abs(means[np.isfinite(means)])
    span = max(float(finite.max()) if finite.size else 0.0, comparison.half_range / 20)
    names = [comparison.players[i] for i in chosen]
    return matrix.draw_payoffs(f"{comparison.game}: who beats whom?", names, means, halves, span)


def _wins(comparison: Comparison) -> Pixels:
    chosen = comparison.shown()
    names = [comparison.players[i] for i in chosen]
    cycles = [
        [names.index(player) for player in cycle.players]
        for cycle in comparison.cycles
        if set(cycle.players) <= set(names)
    ]
    return matrix.draw_wins(f"{comparison.game}: does it go in circles?", names, comparison.beats(chosen), cycles)


def _population(subject: Subject) -> Pixels:
    snapshots = [
        population.Descendant(s.id, s.policy, s.step, s.parent, str(s.origin), s.id in subject.retired)
        for s in subject.snapshots
    ]
    return population.draw_tree("Who descends from whom, and how?", snapshots)


def _time(subject: Subject) -> Pixels:
    lines = [line for line in subject.history if "time/rest" in line]
    phases = [phase for phase in PHASES if any(line.get(f"time/{phase}", 0.0) > 0.0 for line in lines)]
    seconds = [line.get("seconds", 1.0) for line in lines]
    means = {
        phase: sum(s * line.get(f"time/{phase}", 0.0) for s, line in zip(seconds, lines, strict=True)) / sum(seconds)
        for phase in phases
    }
    shown = lines[:: -(-len(lines) // 200)]
    parts = {phase: [line.get(f"time/{phase}", 0.0) for line in shown] for phase in phases}
    last = lines[-1] if lines else {}
    most = max((value for name, value in last.items() if name.startswith("memory/")), default=0.0)
    note = f"legend: of the whole run; memory {most:,.0f} MiB; logging {last.get('time/board', 0.0):.1%} of the time"
    return training.draw_shares("Where does the time go?", [line["iteration"] for line in shown], parts, means, note)


def _credit(game: str, conducts: Sequence[RoleConduct]) -> Pixels:
    credit = [
        training.ByTurn(c.role, [fmean(x) for x in c.advantages_by_turn], [pstdev(x) for x in c.advantages_by_turn])
        for c in conducts
    ]
    rows = {"advantage by turn, with its spread": credit}
    entropy = [training.ByTurn(c.role, [fmean(x) if x else 0.0 for x in c.entropies_by_turn], []) for c in conducts]
    if any(any(role.means) for role in entropy):
        rows["entropy of a reply by turn, nats"] = entropy
    return training.draw_by_turn(f"{game}: is a role starved of signal?", rows)


def _replies(subject: Subject, game: str) -> Pixels:
    prefix = f"{game}/replies/"
    lines = [line for line in subject.history if any(name.startswith(prefix) for name in line)]
    parts = {}
    for kind in REPLY_KINDS:
        shares = [[v for n, v in line.items() if n.startswith(prefix) and n.endswith(f"/{kind}")] for line in lines]
        roles = [len({n.split("/")[2] for n in line if n.startswith(prefix)}) for line in lines]
        if any(shares):
            parts[kind] = [sum(share) / number for share, number in zip(shares, roles, strict=True)]
    latest = {kind: shares[-1] for kind, shares in parts.items()}
    return training.draw_shares(f"{game}: what are its replies?", [line["iteration"] for line in lines], parts, latest)


def _ratings(subject: Subject, game: str) -> Pixels:
    rated = {rating.player: rating for rating in subject.ratings.ranking(game)}
    players = [population.Rated(name, name, None, rated[name].mu, 0.0) for name in subject.anchors if name in rated]
    players += [
        population.Rated(s.id, s.policy, s.step, rated[s.id].mu, rated[s.id].sigma)
        for s in subject.snapshots
        if s.id in rated
    ]
    return population.draw_ratings(f"{game}: ratings", players)


def _mixture(subject: Subject, game: str) -> Pixels:
    lines = [line for line in subject.mixtures if line.get(game)]
    weights = []
    for line in lines:
        seats = line[game]
        players = dict.fromkeys(player for seat in seats for player in seat)
        weights.append({p: sum(seat.get(p, 0.0) for seat in seats) / len(seats) for p in players})
    return population.draw_mixture(f"{game}: meta-strategy", [line["iteration"] for line in lines], weights)
