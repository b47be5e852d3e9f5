"""The order and the groups of the board: by the question that a person asks, not by the module that answers it.

Figures are named "QUESTION/…" and the tab of custom scalars has a category for each question. The opening page pins, in
the order of the story: which alarms ring, whether it learns, what it does differently now, who beats whom and who
descends from whom, and then the curves behind them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from games.common.errors import UsageError
from games.registry import make_game

LEARNING = "1_is_it_learning"
DOING = "2_what_does_it_do"
BEATS = "3_who_beats_whom"
BREAKING = "4_is_it_breaking"
CHANGE = "5_what_to_change"

# Metrics that say more than exploitability where interests are common or mixed: there a babbler has 0, too.
EARNED = (r".+/return(/.+)?", r".+/(best_)?welfare", r".+/pareto_share", r".+/c?ce_gap")

# The most informative curves, in this order: TensorBoard shows them above all others.
PINNED = (
    r".+/(mixture_)?exploitability",
    *EARNED,
    r".+/judge/.+",
    r".+/score_against_.+",
    r"rating",
    r".+/score/.+",
    r"alarms/.+",
    r"illegal_rate",
    r"gap",
)
ALWAYS_PINNED = [pattern for pattern in PINNED if pattern.isidentifier()]  # whatever the game

Chart = tuple[str, list[str]]  # "Multiline" and patterns of tags, or "Margin" and the tags of value, low and high
Layout = dict[str, dict[str, Chart]]  # the charts of the tab of custom scalars, by question and title

# The groups of charts after those of what is done, in TensorBoard's form.
_BREAKING: dict[str, Chart] = {
    "alarms": ("Multiline", [r"alarms/.+"]),
    "illegal replies": ("Multiline", [r"illegal_rate"]),
    "log-prob gap, nats": ("Multiline", [r"(.+/)?gap$"]),
    "entropy of updates, nats": ("Multiline", [r"[^/]+/entropy$"]),
}
_CHANGE: dict[str, Chart] = {
    "mean advantage by role and turn": ("Multiline", [r".+/advantage/.+/mean"]),
    "spread of advantages": ("Multiline", [r".+/advantage/.+/spread"]),
    "groups without signal": ("Multiline", [r".+/flat_groups/.+"]),
    "turns left out": ("Multiline", [r".+/(left_out|idle)/.+"]),
    "loss": ("Multiline", [r"[^/]+/loss"]),
    "KL to the policy before the update, nats": ("Multiline", [r".+/kl_.+"]),
    "KL to the teacher by role, nats": ("Multiline", [r".+/teacher_kl/.+"]),
    "share of clipped ratios": ("Multiline", [r".+/clipped"]),
    "gradient norm": ("Multiline", [r".+/grad_norm"]),
    "share of time by phase": ("Multiline", [r"time/.+"]),
    "model FLOP utilisation": ("Multiline", [r"mfu/.+"]),
    "memory after phases, MiB": ("Multiline", [r"memory/.+"]),
    "staleness, updates": ("Multiline", [r"staleness|dropped"]),
}


def pinned_metrics(metrics: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the names of metrics that match ``PINNED``, in its order.

    If the first game is not competitive, returns go before exploitability. A score that never changes, as in a
    cooperative game, is left out; so are an alarm that never rang, and a score where amounts count, as in poker: it
    may fall in a good run.
    """
    values: dict[str, set[float]] = {}
    for line in metrics:
        for name, value in line.items():
            values.setdefault(name, set()).add(value)
    names = [name for name, distinct in values.items() if len(distinct) > 1 or not re.search("/score|^alarms/", name)]
    names = [name for name in names if "/score_against_" not in name or _is_won_or_lost(name.split("/")[-2])]
    first = next((name.rpartition("/")[0] for name in names if re.fullmatch(PINNED[0], name)), "")
    order = PINNED if not first or _is_competitive(first) else (*EARNED, *PINNED)
    matched = [name for pattern in order for name in names if re.fullmatch(pattern, name)]
    return list(dict.fromkeys(matched))


def _is_competitive(game: str) -> bool:
    try:
        return make_game(game).spec.competitive
    except UsageError:  # such as a game that was read from a file
        return True


def _is_won_or_lost(game: str) -> bool:
    try:
        spec = make_game(game).spec
    except UsageError:  # such as a game that was read from a file
        return False
    return (spec.min_return, spec.max_return) == (-1.0, 1.0)


def layout(
    games: Mapping[str, Sequence[tuple[str, str, str]]],
    cooperative: bool,
    exploited: bool,
    observed: Mapping[str, Mapping[str, Chart]] = {},
) -> Layout:
    """Return the tab of custom scalars: charts by question, first those of named probabilities with their bands.

    ``games`` has, for each game, its named probabilities with the ends of their bands: tags of value, low and high.
    ``cooperative`` and ``exploited`` say whether some game is not competitive, and some policy is an exploiter;
    otherwise their charts would be empty. ``observed`` are the charts that observers add, by game.
    """
    learning: dict[str, Chart] = {"exploitability": ("Multiline", [r".+/(mixture_)?exploitability"])}
    if cooperative:
        earned: dict[str, Chart] = {
            "return where interests are common or mixed": ("Multiline", [r".+/return(/.+)?"]),
            "welfare, and the best possible": ("Multiline", [r".+/(best_)?welfare"]),
            "CE gap": ("Multiline", [r".+/c?ce_gap"]),
        }
        learning = earned | learning
    learning["score against anchors"] = ("Multiline", [r".+/score_against_.+"])
    learning["the judge: agreement with the truth, position bias"] = ("Multiline", [r".+/judge/.+"])
    learning["rating of the newest snapshot"] = ("Multiline", [r"(.+/)?rating$"])
    beats: dict[str, Chart] = {"score by role": ("Multiline", [r".+/score/.+"])}
    if exploited:
        beats["score of exploiters"] = ("Multiline", [r"[^/]+/score$"])
    return {
        "1 Is it learning?": learning,
        "2 What does it do?": _doing(games, observed),
        "3 Who beats whom?": beats,
        "4 Is it cheating or breaking?": _BREAKING,
        "5 What should I change?": _CHANGE,
    }


def with_curves(charts: Layout, tags: Collection[str]) -> Layout:
    """Return the charts for which there is a curve among the tags; the others would be empty."""

    def has_curve(chart: Chart) -> bool:
        kind, patterns = chart
        return patterns[0] in tags if kind == "Margin" else any(re.match(patterns[0], tag) for tag in tags)

    kept = {
        question: {title: chart for title, chart in of_question.items() if has_curve(chart)}
        for question, of_question in charts.items()
    }
    return {question: of_question for question, of_question in kept.items() if of_question}


def _doing(
    games: Mapping[str, Sequence[tuple[str, str, str]]], observed: Mapping[str, Mapping[str, Chart]]
) -> dict[str, Chart]:
    """Return the charts of what is done in each game, including the observers' charts."""
    doing: dict[str, Chart] = {}
    for game, margins in games.items():
        name = re.escape(game)
        for tags in margins:
            doing[tags[0]] = ("Margin", list(tags))
        if not margins:
            doing[f"{game}: probabilities at information states"] = ("Multiline", [rf"{name}/strategy/.+"])
        doing[f"{game}: first moves"] = ("Multiline", [rf"{name}/opening/.+"])
        doing[f"{game}: entropy of a reply by turn, nats"] = ("Multiline", [rf"{name}/entropy/.+"])
        doing |= observed.get(game, {})
        doing[f"{game}: kinds of replies"] = ("Multiline", [rf"{name}/replies/.+"])
    return doing
