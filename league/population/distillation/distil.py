"""Distil: one snapshot that behaves as a run's mixture does on average.

Each policy begins from the member with the greatest weight, and learns the mixture's replies in every situation of its
roles, in all games of the run at once. Measurements are exact where the game has tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from games.aliases import short_name
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import Utility
from league.config import RunConfig
from league.config.load import seat_roles
from league.population.distillation.students import Taught, engine_of, mean_kl, students, teach, view
from league.population.distillation.targets import Target, exact_table, sampled_targets, targets_of
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.population.storage.run_dir import Run
from league.theory.exact.exploitability import PolicyTable, exploitability, head_to_head

MIXTURE = "mixture"
LOSS = 0.005  # of half a game's range: a model that became worse by more gets a warning
HELD_OUT = 4  # sampled matches for measuring, as a share of those that are imitated: one in this many

Progress = Callable[[str, int, int], None]  # the step, how much of it is done, of how much


class Worth(NamedTuple):
    """A player's value in a game: its exploitability, or in a cooperative game its return with itself."""

    kind: str  # "exploitability" or "return"
    before: float  # of the member that it begins from
    target: float | None  # of the mixture; None: it has no table
    after: float

    def loss(self, half_range: float) -> float:
        """Return how much worse it became, as a share of half the game's range; 0 or less: not at all."""
        worse = self.before - self.after if self.kind == "return" else self.after - self.before
        return worse / half_range


class GameResult(NamedTuple):
    """How near a distilled model is to the mixture in one game."""

    game: str
    exact: bool  # whether the mixture's table is the target, or its play
    situations: int
    kl_before: float  # of the targets to the member that it begins from, nats a situation, by how likely they are
    kl_after: float
    worth: Worth | None  # None: the game is too large


class Distilled(NamedTuple):
    """The distilled policies of a run by name, and how near they are."""

    taught: dict[str, Taught]
    games: list[GameResult]


def distil(run: Run, which: str, engines: Engines, seed: int = 0, on_progress: Progress | None = None) -> Distilled:
    """Teach each policy of a run to play as RUN@``which`` plays on average.

    Raises UsageError for a mixture that does not exist, and for a game whose players outside the run do not answer.
    """
    config, tell = run.config, on_progress or (lambda *_: None)
    players = {}
    for number, game in enumerate(config.games):
        tell("asking the mixture", number, len(config.games))
        players[game] = resolve(f"{run.path}@{which}", make_game(game).spec, engines)
    answering = {game: _answering(config, player) for game, player in players.items()}
    lessons = {game: _lesson(config, player, answering[game], seed) for game, player in players.items()}
    learning = students(run, players)
    engine = engine_of(learning, config)
    views = {game: view(player, engine) for game, player in players.items()}
    limit = config.evaluation.exact_limit
    before = {game: _measured(lesson, learning, config, views[game], limit) for game, lesson in lessons.items()}
    for name, taught in learning.items():
        if not config.policy(name).frozen:
            targets = [target for lesson in lessons.values() for target in lesson.targets]
            teach(config, taught, targets, derive_seed(seed, "distil", name), partial(tell, f"teaching {name}"))
    engine.refresh()
    results = []
    for game, lesson in lessons.items():
        kl, value = _measured(lesson, learning, config, view(answering[game], engine), limit)
        worth = _worth(players[game], before[game][1], lesson.table, value)
        results.append(GameResult(game, lesson.table is not None, lesson.situations, before[game][0], kl, worth))
    return Distilled(learning, results)


class _GameLesson(NamedTuple):
    """The targets of a game."""

    targets: list[Target]
    table: PolicyTable | None  # of the mixture
    held_out: list[Target]  # on which it is measured

    @property
    def situations(self) -> int:
        """How many situations are taught, each of which may have several replies."""
        return len({(target.policy, str(target.chat)) for target in self.targets})


def _answering(config: RunConfig, player: Player) -> Player:
    """Return a player in the cards in which the distilled model will answer."""
    if not config.distil.roles:
        return player
    cards = seat_roles(config.distilled_roles, player.spec)
    roles = tuple([role if role.fixed else card for role, card in zip(player.roles, cards, strict=True)])
    return replace(player, roles=roles, team=tuple([_answering(config, p) for p in player.team]))


def _lesson(config: RunConfig, player: Player, student: Player, seed: int) -> _GameLesson:
    matches, limit, game = config.distil.matches, config.evaluation.exact_limit, player.spec.name
    targets, table = targets_of(player, student, matches, limit, derive_seed(seed, "distil", game))
    if table is not None:
        return _GameLesson(targets, table, targets)
    fewer = -(-matches // HELD_OUT)
    return _GameLesson(targets, None, sampled_targets(player, fewer, derive_seed(seed, "held out", game), student))


def _measured(
    lesson: _GameLesson, learning: Mapping[str, Taught], config: RunConfig, view: Player, limit: int
) -> tuple[float, float | None]:
    """Return the KL of a game's targets to the policies, and their value in the game; None if that is not known.

    The value of policies that answer freely is from sampled replies, where the mixture has a table.
    """
    table = exact_table(view, limit)
    if table is None and lesson.table is not None:
        table = view.tabulate(limit=limit).table
    kl = mean_kl(config, learning, lesson.held_out)
    return kl, None if table is None else _value(view, table)


def _value(player: Player, table: PolicyTable) -> float:
    """Return the exploitability over the seats without fixed players, or the return of a cooperative game."""
    if player.spec.utility is Utility.IDENTICAL:
        return head_to_head([table] * player.spec.seats)[0]
    return exploitability(table, [role.seat for role in player.roles if not role.fixed])


def _worth(player: Player, before: float | None, table: PolicyTable | None, after: float | None) -> Worth | None:
    if before is None or after is None:
        return None
    kind = "return" if player.spec.utility is Utility.IDENTICAL else "exploitability"
    return Worth(kind, before, None if table is None else _value(player, table), after)


def warning(result: GameResult) -> str:
    """Return a sentence if distilling has made a model worse than the snapshot that it begins from; "" otherwise."""
    spec, worth = make_game(result.game).spec, result.worth
    half_range = (spec.max_return - spec.min_return) / 2.0 or 1.0
    if worth is None or worth.loss(half_range) <= LOSS:
        return ""
    advice = "More distil.steps may help"
    if worth.target is not None and worth._replace(after=worth.target).loss(half_range) > LOSS:
        advice = "The mixture itself is worse; evaluation.mixture says how it weights snapshots"
    return f"Warning: the snapshot that this model starts from is better in {short_name(result.game)}. {advice}."


def in_few_words(results: Sequence[GameResult]) -> str:
    """Return the results in a few words, as a snapshot keeps them."""
    return ", ".join(f"{result.game} KL {result.kl_before:.3g} to {result.kl_after:.3g}" for result in results)
