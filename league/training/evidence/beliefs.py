"""What a run makes of its seats' beliefs: what they learn to say at probes, and what the board shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from arena.lm.chunks import Tokens
from arena.records import Episode, flatten_episodes
from league.config.context import RunContext
from league.training.evidence.source import AfterPlay, Column, Source
from learners.beliefs import bits, changes, histories, spoken
from learners.trajectories import ProbeAnswers
from roles.probes import Probe
from roles.prompts import messages
from roles.replies import probed
from roles.role import Role, Roles

Metrics = dict[str, float]
MOST_SPEECHES = 12  # of a match, of which each has a number on the board


def probes_of(roles: Sequence[Role]) -> list[Probe]:
    """Return the probes of a game's roles, each once."""
    return list({probe.name: probe for role in roles for probe in role.probes}.values())


def listens(context: RunContext, game: str, role: str) -> bool:
    """Return whether a role learns to listen."""
    listening = context.config.beliefs.listening
    return listening.on and bool(listening.factor(game, role))


def probe_answers(context: RunContext, play: AfterPlay) -> Column:
    """Return what each seat was asked about the position, and what was true."""
    prompts: dict[object, Tokens] = {}
    column: list[tuple[ProbeAnswers, ...] | None] = []
    for one in play.trajectories:
        if one.policy not in play.policies:
            column.append(None)
            continue
        lm, role = play.policies[one.policy].lm, context.roles[one.game][one.seat]
        probes = {probe.name: probed(role, probe) for probe in role.probes}
        answered = []
        for belief in play.matches[one.match].beliefs:
            if belief.seat == one.seat and belief.truths:
                asking = probes[belief.probe], belief.observation, belief.answers
                if (key := (one.policy, *asking)) not in prompts:
                    prompts[key] = lm.encode_prompt(messages(*asking))
                answered.append(ProbeAnswers(prompts[key], belief.answers, belief.truths))
        column.append(tuple(answered))
    return column


SOURCE = Source(probe_answers, asked=listens)


def belief_metrics(episodes: Sequence[Episode], roles: Roles) -> Metrics:
    """Return what an iteration's seats believed, by game.

    ``GAME/belief/ROLE`` is the mean probability of the truth when a match is over, ``GAME/belief/ROLE/N`` after N
    speeches; ``GAME/information/ROLE`` what a speech of the role tells each hearer, in bits, ``GAME/information/N``
    what the N-th speech of a match does; ``GAME/shaping/ROLE`` what is paid a match beside the game; ``GAME/unasked``
    the share of the seats' probes whose players cannot be asked.
    """
    numbers: dict[str, list[float]] = {}
    for episode in flatten_episodes(episodes):
        seats = roles.get(episode.request.game, ())
        if episode.beliefs and seats:
            _add_beliefs(numbers, episode, seats)
        for seat, role in enumerate(seats if episode.shaping else ()):
            paid = [amount for amount, turn in zip(episode.shaping, episode.turns, strict=True) if turn.seat == seat]
            numbers.setdefault(f"{episode.request.game}/shaping/{role.name}", []).append(sum(paid))
    return {name: fmean(values) for name, values in numbers.items()}


def _add_beliefs(numbers: dict[str, list[float]], episode: Episode, seats: Sequence[Role]) -> None:
    """Add a match's numbers."""
    game, probes = episode.request.game, {probe.name: probe for probe in probes_of(seats)}
    silent = {(one.probe, one.seat) for one in episode.beliefs if not one.probabilities}
    asked = {(one.probe, one.seat) for one in episode.beliefs}
    numbers.setdefault(f"{game}/unasked", []).append(len(silent) / len(asked))
    for (name, seat), beliefs in histories(episode).items():
        role, said = seats[seat].name, speeches(episode, probes[name])
        numbers.setdefault(f"{game}/belief/{role}", []).append(beliefs[-1].in_truth or 0.0)
        for number, turn in enumerate([-1, *said[:MOST_SPEECHES]]):
            at = next((one for one in beliefs if one.after == turn + 1), None)
            if at is not None:
                numbers.setdefault(f"{game}/belief/{role}/{number}", []).append(at.in_truth or 0.0)
    for change in changes(episode):
        said, speaker = speeches(episode, probes[change.probe]), episode.turns[change.turn].seat
        if change.turn in said and speaker != change.hearer:
            gained = bits(change.after) - bits(change.before)
            numbers.setdefault(f"{game}/information/{seats[speaker].name}", []).append(gained)
            if (number := said.index(change.turn) + 1) <= MOST_SPEECHES:
                numbers.setdefault(f"{game}/information/{number}", []).append(gained)


def speeches(episode: Episode, probe: Probe) -> list[int]:
    """Return the places of a match's turns that said something."""
    return [place for place, turn in enumerate(episode.turns) if spoken(turn, probe)]
