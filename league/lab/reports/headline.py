"""A run in a few sentences: its progress, what was learned, who leads, cycles, and alarms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from games.spec import Utility
from league.lab.reports.pages import plain
from league.lab.reports.run_record import RunRecord
from league.lab.reports.strategies import GameStrategies
from league.theory.statistics import PERCENTILES, Z_95

ILLEGAL = 0.01  # share of illegal replies that is worth a sentence


class Headline(NamedTuple):
    """The sentences, and the alarms that are still ringing."""

    sentences: list[str]
    ringing: list[str]


def headline(record: RunRecord, strategies: Sequence[GameStrategies]) -> Headline:
    """Return a run's headline; ``strategies`` are this run's only."""
    sentences = [_progress(record), *_over_games(record)]
    for game in record.specs:
        sentences += _learned(record, game)
        sentences += _leader(record, game)
    sentences += [sentence for strategy in strategies if (sentence := _strategy(strategy))]
    sentences += _unknown(record)
    sentences += _replies(record)
    rang, ringing = _alarms(record)
    return Headline(sentences + rang, ringing)


def _progress(record: RunRecord) -> str:
    config = record.config
    games = ", ".join(config.games)
    policies = list(dict.fromkeys(snapshot.policy for snapshot in record.snapshots))
    population = f"{len(record.snapshots)} snapshots of {', '.join(policies)}" if policies else "no snapshot yet"
    state = "finished" if record.finished else "not finished: still training, or stopped"
    return f"{record.done} of {config.iterations} iterations ({state}), on {games}; {population}."


def _unknown(record: RunRecord) -> list[str]:
    """Return a sentence on the games whose facts are not known."""
    games = ", ".join(game for game in record.config.games if game not in record.specs)
    why = "a report does not load games of other libraries, and no kept match describes them"
    return [f"For {games} there are only measurements: {why}."] if games else []


def _over_games(record: RunRecord) -> list[str]:
    """Return how well the run does over all games, if they are judged."""
    shares = [(p, record.last(f"curriculum/percentile_{p}")) for p in PERCENTILES]
    words = ", ".join(f"{plain(share)} ({p}th)" for p, share in shares if share is not None)
    return [f"Its share of the best score so far, by percentiles over games: {words}."] if words else []


def _learned(record: RunRecord, game: str) -> list[str]:
    """Return the result of a game's measurements, in words that fit the game."""
    spec, metrics = record.specs[game], record.metrics
    words, earned = [], []
    if series := metrics.get(f"{game}/exploitability"):
        mixture = record.last(f"{game}/mixture_exploitability")
        words.append(
            f"exploitability {plain(series.values[0])} → {plain(series.values[-1])}"
            f"{_best(series.values, series.iterations)}"
            + (f", of the whole population's mixture {plain(mixture)}" if mixture is not None else "")
            + f" ({spec.exploitability_note})"
        )
    if series := metrics.get(f"{game}/return"):
        best = f" of at most {spec.optimum:g}" if spec.optimum is not None else ""
        earned.append(f"mean return together {plain(series.values[0])} → {plain(series.values[-1])}{best}")
    if series := metrics.get(f"{game}/welfare"):
        best_welfare = record.last(f"{game}/best_welfare")
        of_best = f" of at most {plain(best_welfare)}" if best_welfare is not None else ""
        earned.append(f"welfare {plain(series.values[0])} → {plain(series.values[-1])}{of_best}")
    if not spec.competitive and (series := metrics.get(f"{game}/ce_gap")):
        earned.append(f"CE gap {plain(series.values[0])} → {plain(series.values[-1])}")
    if series := metrics.get(f"{game}/judge/agreement"):
        earned.append(f"the judge agrees with the truth {plain(series.values[0])} → {plain(series.values[-1])}")
    words = words + earned if spec.competitive else earned + words  # what matters first
    if spec.utility is not Utility.IDENTICAL and not words and (series := metrics.get(f"{game}/score_against_random")):
        words.append(
            f"score against random {plain(series.values[0])} → {plain(series.values[-1])} (win 1, draw ½, loss 0)"
        )
    return [f"{game}: {'; '.join(words)}."] if words else []


def _best(values: Sequence[float], iterations: Sequence[int]) -> str:
    """Return where a curve was best, if it has become worse since."""
    best = min(range(len(values)), key=values.__getitem__)
    if values[best] < 0.9 * values[-1]:
        return f" (best {plain(values[best])} at iteration {iterations[best]}; it has got worse since)"
    return ""


def _leader(record: RunRecord, game: str) -> list[str]:
    """Return who leads a game by Elo, and which players form cycles."""
    standings = record.standings.get(game)
    if standings is None or standings.cooperative:
        return []
    first = standings.ranking[0]
    sentence = f"{game}: {first.player} leads with {first.elo:.0f} Elo points"
    if standings.lead is not None:
        gain, error = standings.lead[0], Z_95 * standings.lead[1]
        clear = "clearly" if gain > error else "which these matches do not show to be more than chance"
        sentence += f", {gain:.0f} ± {error:.0f} above {standings.ranking[1].player}, {clear}"
    sentences = [f"{sentence}."]
    if standings.cycles:
        sentences.append(f"{game} has a cycle: {standings.cycles[0]}. Prefer the mixture to the newest snapshot.")
    return sentences


def _strategy(strategy: GameStrategies) -> str:
    judged = [chart for chart in strategy.charts if chart.inside is not None]
    if not strategy.named or not judged:
        return ""
    outside = [f"{chart.title} ({chart.verdict})" for chart in judged if not chart.inside]
    inside = len(judged) - len(outside)
    text = f"{strategy.game}: {inside} of {len(judged)} named probabilities are within the equilibria's bands"
    return f"{text}; outside: {'; '.join(outside[:3])}{' …' if len(outside) > 3 else '.'}" if outside else f"{text}."


def _replies(record: RunRecord) -> list[str]:
    rate = record.last("illegal_rate")
    if rate is None or rate < ILLEGAL:
        return []
    return [f"{rate:.1%} of replies were illegal in the last iteration."]


def _alarms(record: RunRecord) -> tuple[list[str], list[str]]:
    """Return a sentence on the alarms that ever rang, and one for each that rings now."""
    rang, ringing = [], []
    for name, series in record.metrics.items():
        if name.startswith("alarms/"):
            times = [iteration for iteration, value in zip(*series, strict=True) if value > 0]
            label = name.removeprefix("alarms/")
            if times and times[-1] == series.iterations[-1]:
                ringing.append(f"The alarm {label} is ringing, for {len(times)} iterations, since {_since(times)}.")
            elif times:
                rang.append(f"The alarm {label} rang in {len(times)} iterations, last in {times[-1]}.")
    return rang, ringing


def _since(times: Sequence[int]) -> int:
    """Return the first iteration of the last unbroken stretch."""
    start = times[-1]
    for time in reversed(times[:-1]):
        if time != start - 1:
            break
        start = time
    return start
