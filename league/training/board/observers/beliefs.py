"""Seats' beliefs in the course of a match, and the information in each speech: measured, and drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from statistics import fmean

from arena.records import Episode, flatten_episodes
from games.aliases import short_name
from league.config.context import RunContext
from league.training.board.figures.canvas import Drawing
from league.training.board.figures.strategy import draw_beliefs
from league.training.board.observer import Figure, FigureData, Observer
from league.training.board.questions import DOING, Chart
from league.training.evidence.beliefs import probes_of
from learners.beliefs import bits, changes, histories, spoken
from roles.probes import Probe
from roles.role import Role, Roles

Metrics = dict[str, float]
MOST_SPEECHES = 12  # of a match that have their own number on the board


def belief_metrics(episodes: Sequence[Episode], roles: Roles) -> Metrics:
    """Return metrics of the beliefs of an iteration's seats, by game.

    ``GAME/belief/ROLE`` is the mean probability of the truth when a match is over, ``GAME/belief/ROLE/N`` after N
    speeches; ``GAME/information/ROLE`` is how much a speech of the role tells each hearer, in bits,
    ``GAME/information/N`` how much the N-th speech of a match does; ``GAME/shaping/ROLE`` the shaping reward a match;
    ``GAME/unasked`` the share of the seats' probes whose players cannot be asked.
    """
    numbers: dict[str, list[float]] = {}
    for episode in flatten_episodes(episodes):
        seats = roles.get(episode.request.game, ())
        if episode.beliefs and seats:
            _add_beliefs(numbers, episode, seats)
        for seat, role in enumerate(seats if episode.shaping else ()):
            rewards = [amount for amount, turn in zip(episode.shaping, episode.turns, strict=True) if turn.seat == seat]
            numbers.setdefault(f"{episode.request.game}/shaping/{role.name}", []).append(sum(rewards))
    return {name: fmean(values) for name, values in numbers.items()}


def _add_beliefs(numbers: dict[str, list[float]], episode: Episode, seats: Sequence[Role]) -> None:
    """Add a match's numbers."""
    game, probes = episode.request.game, {probe.name: probe for probe in probes_of(seats)}
    silent = {(belief.probe, belief.seat) for belief in episode.beliefs if not belief.probabilities}
    probed = {(belief.probe, belief.seat) for belief in episode.beliefs}
    numbers.setdefault(f"{game}/unasked", []).append(len(silent) / len(probed))
    for (name, seat), beliefs in histories(episode).items():
        role, spoken_turns = seats[seat].name, speeches(episode, probes[name])
        numbers.setdefault(f"{game}/belief/{role}", []).append(beliefs[-1].in_truth or 0.0)
        for number, turn in enumerate([-1, *spoken_turns[:MOST_SPEECHES]]):
            at = next((belief for belief in beliefs if belief.after == turn + 1), None)
            if at is not None:
                numbers.setdefault(f"{game}/belief/{role}/{number}", []).append(at.in_truth or 0.0)
    for change in changes(episode):
        spoken_turns, speaker = speeches(episode, probes[change.probe]), episode.turns[change.turn].seat
        if change.turn in spoken_turns and speaker != change.hearer:
            gained = bits(change.after) - bits(change.before)
            numbers.setdefault(f"{game}/information/{seats[speaker].name}", []).append(gained)
            if (number := spoken_turns.index(change.turn) + 1) <= MOST_SPEECHES:
                numbers.setdefault(f"{game}/information/{number}", []).append(gained)


def speeches(episode: Episode, probe: Probe) -> list[int]:
    """Return the indices of a match's turns that said something."""
    return [index for index, turn in enumerate(episode.turns) if spoken(turn, probe)]


def beliefs(data: FigureData, game: str) -> Drawing:
    """Draw what seats believe: belief in the truth by speeches, and bits by speech."""
    names = data.names(f"{game}/belief/")
    roles = dict.fromkeys(name.removeprefix(f"{game}/belief/").rpartition("/")[0] for name in names)
    belief = {role: data.by_number(f"{game}/belief/{role}/") for role in roles}
    title = f"{short_name(game)}: what do they believe?"
    return partial(draw_beliefs, title, belief, data.by_number(f"{game}/information/")[0])


def charts(context: RunContext, game: str) -> dict[str, Chart]:
    """Return a game's charts if seats are asked what they believe; otherwise they would be empty."""
    name, shown = re.escape(short_name(game)), short_name(game)
    return (
        {
            f"{shown}: belief in the truth": ("Multiline", [rf"{name}/belief/[^/]+$"]),
            f"{shown}: bits of a speech": ("Multiline", [rf"{name}/information/[^/]+$"]),
        }
        if context.config.beliefs.asked
        else {}
    )


BELIEFS = Observer(
    lambda record: belief_metrics(record.episodes, record.context.roles),
    description="belief in the truth, and what speeches reveal, where seats are asked",
    charts=charts,
)
BELIEFS_FIGURE = Figure(
    beliefs,
    question=DOING,
    games=lambda data: [game for game in data.specs if data.by_number(f"{game}/information/")],
    metrics=(r".+/belief/.+/\d+", r".+/information/\d+"),
    pinned=True,
)
