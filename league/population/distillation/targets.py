"""A mixture's replies in each situation: the targets that one model imitates.

A mixture draws a member for each seat when a match begins. Kuhn's theorem (1953) gives the single behaviour that plays
the same: at an information state each member is weighted by its weight times the probability that its own replies lead
there. In a game that is small enough this is a table (``exploitability.mixture``), and every information state is a
situation. In other games the mixture plays, and the situations are the turns of its matches, as in neural fictitious
self-play (Heinrich and Silver 2016, arXiv 1603.01121); where replies are choices, the target is still the average and
not the reply that was drawn, so it has no sampling noise.

A model that answers freely can be taught by choices too: each legal reply, in its shortest form, as often as it is
chosen, over the whole vocabulary. The KL to that is the KL of the choices plus -log of the mass on legal replies, which
is therefore taught with the play.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from arena.records import Episode, MatchRequest, ReplyRequest, Turn, flatten_episodes
from arena.scheduler import play
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import labels
from league.population.players.player import Player
from league.population.storage.identity import with_notes
from league.theory.exact.exploitability import PolicyTable, count_information_states, exact_form, information_positions
from league.theory.exact.sequence_form import Behaviour, SequenceForm
from roles.chat_text import Message
from roles.prompts import messages, observed
from roles.replies import format_reply, speaking
from roles.role import ReplyForm, Role

OFF_PATH = 0.5  # the part of a situation's weight that comes from opponents that play uniformly, not from the mixture


class Target(NamedTuple):
    """One situation and the mixture's replies in it."""

    game: str
    policy: str  # the policy that learns it
    chat: tuple[Message, ...]
    legal: tuple[str, ...]  # () of a free reply
    reply: str  # a free one; "" of a choice
    probabilities: tuple[float, ...]  # of the legal replies; of a free reply (1.0,)
    entropy: float  # nats: the least cross-entropy of the situation
    temperature: float
    weight: float  # a game's sum to one


def exact_targets(player: Player, table: PolicyTable) -> list[Target]:
    """Return every information state that the player reaches, as its ``table`` plays there, in the player's cards.

    The weight is the probability of getting there: the player's own plan times chance and opponents, half of the time
    the mixture's own play and half uniform play, as an exploiting opponent does what the mixture itself never does.
    """
    game = player.spec.name
    form = exact_form(game)
    assert isinstance(form, SequenceForm), "boards have no table of a mixture"
    weights = reach(form, [table.probabilities[key] for key in form.keys])
    targets = []
    for (key, position), weight in zip(
        information_positions(game).items(), _in_order(game, form, weights), strict=True
    ):
        role, legal = player.roles[key[0]], labels(position)
        if role.fixed or len(legal) < 2 or weight <= 0.0:
            continue
        by_id = dict(zip(sorted(position.legal_ids()), table.probabilities[key], strict=True))
        shares = tuple([by_id[action] for action in position.legal_ids()])
        chat = messages(role, observed(role, position), legal)
        targets += reply_targets(role, chat, legal, shares, weight)
    return normalised(targets)


def _in_order(game: str, form: SequenceForm, weights: Sequence[float]) -> Iterator[float]:
    by_key = dict(zip(form.keys, weights, strict=True))
    return (by_key[key] for key in information_positions(game))


def reach(form: SequenceForm, behaviour: Behaviour) -> list[float]:
    """Return the probability of getting to each information state [I] by a behaviour [I][actions].

    Half of the time opponents follow it too, half of the time they play uniformly.
    """
    own_plan = form.plan(behaviour)
    uniform = form.plan([[1.0 / len(legal)] * len(legal) for legal in form.legal])
    total = np.zeros(form.sequences)
    for seat in range(form.seats):
        others = np.delete(form.last, seat, axis=1)
        for share, plan in ((1.0 - OFF_PATH, own_plan), (OFF_PATH, uniform)):
            to_here = form.chance * plan[others].prod(axis=1)  # by terminal: the seat's own actions do not count
            total += share * np.bincount(form.last[:, seat], to_here, form.sequences)
    to_state = np.zeros(len(form.keys))
    for index in range(len(form.keys) - 1, -1, -1):  # an information state comes after those the seat passes before
        actions = slice(form.first[index], form.first[index] + len(form.legal[index]))
        to_state[index] = total[actions].mean()  # equal for all: others' probabilities below an action sum to one
        total[form.parent[index]] += to_state[index]
    return [float(value * own_plan[parent]) for value, parent in zip(to_state, form.parent, strict=True)]


def sampled_targets(player: Player, matches: int, seed: int, student: Player | None = None) -> list[Target]:
    """Return the turns of matches that the player plays with itself, submatches included, with equal weights.

    They are in the cards of ``student``; None: in the player's own.
    """
    everywhere = {p.spec.name: p for p in (player, *player.team)}
    cards = {p.spec.name: p.roles for p in (student or player, *(student or player).team)}
    played: dict[tuple[str, int], list[list[Turn]]] = {}  # by game and seat
    for episode in flatten_episodes(self_play(player, matches, seed)):
        for role in everywhere[episode.request.game].roles:
            if not role.fixed:
                own_turns = [turn for turn in episode.turns if turn.seat == role.seat]
                played.setdefault((role.game, role.seat), []).append(own_turns)
    targets: list[Target] = []
    for (game, seat), by_match in played.items():
        home = everywhere[game]
        replies = _ask_members(home, home.roles[seat], by_match)
        for turns in by_match:
            targets += _turns(home, home.roles[seat], cards[game][seat], turns, replies)
    return normalised(targets)


def self_play(player: Player, matches: int, seed: int) -> list[Episode]:
    """Return matches that a player plays with itself, a member drawn for each seat."""
    spec, engines = player.spec, player.engines()
    requests = []
    for index in range(matches):
        rng = random.Random(derive_seed(seed, "distil members", spec.name, index))
        deal, sample = (derive_seed(seed, kind, spec.name, index) for kind in ("distil deal", "distil sample"))
        drawn = tuple(player.draw(seat, rng) for seat in range(spec.seats))
        request = MatchRequest(
            index, spec.name, deal, sample, drawn, (False,) * spec.seats, "distil", cast=player.cast(rng)
        )
        requests.append(request)
    roles, noted = {p.spec.name: p.roles for p in (player, *player.team)}, with_notes(requests, dict(player.kept))
    return play(noted, roles_of=roles.__getitem__, engine_of=engines.__getitem__, make_game=make_game)


Said = Mapping[tuple[str, tuple[str, ...]], "np.ndarray[tuple[int, int], np.dtype[np.float64]]"]


def _ask_members(player: Player, role: Role, by_match: Sequence[Sequence[Turn]]) -> Said:
    """Return each member's distribution in every choice of these turns, by observation and legal replies [N, A]."""
    if role.reply is ReplyForm.FREE:
        return {}
    choices = [turn for turns in by_match for turn in turns if len(turn.legal) > 1 and not turn.form]
    questions = list(dict.fromkeys((turn.observation, turn.legal) for turn in choices))
    game, rng, rows = make_game(player.spec.name), random.Random(0), []
    for name, _ in player.members[role.seat] if questions else ():
        engine = player.engine_of(name)
        requests = [ReplyRequest(name, role, game, observation, legal, (), rng) for observation, legal in questions]
        rows.append(engine.distributions(requests))  # type: ignore[attr-defined]  # of language models
    return {key: np.array([row[index] for row in rows]) for index, key in enumerate(questions)}


def _turns(player: Player, role: Role, card: Role, turns: Sequence[Turn], replies: Said) -> Iterator[Target]:
    """Yield a seat's turns of one match, as ``card`` words them: for a choice the members' average, else the reply."""
    posterior = np.array([weight for _, weight in player.members[role.seat]])  # given the seat's replies so far  # [N]
    for turn in turns:
        turn_role, own_card = (speaking(role), speaking(card)) if turn.form else (role, card)
        if turn.action is None:
            continue
        if turn_role.reply is ReplyForm.FREE:
            if turn.trace is not None:
                chat = messages(own_card, turn.observation, turn.legal, (), turn.form)
                yield free_target(own_card, chat, turn.reply, -sum(turn.trace.logprobs), 1.0)
        elif len(turn.legal) > 1:
            shares = replies[turn.observation, turn.legal]  # [N, A]
            mixed = tuple((posterior @ shares).tolist())
            yield from reply_targets(card, messages(card, turn.observation, turn.legal), turn.legal, mixed, 1.0)
            posterior = posterior * shares[:, turn.legal.index(turn.action)]
            posterior /= posterior.sum()


def targets_of(
    player: Player, student: Player, matches: int, limit: int, seed: int
) -> tuple[list[Target], PolicyTable | None]:
    """Return a player's targets in its game, in the cards of ``student``, and the player's table.

    The table is None where a mixture has none: in games with more than ``limit`` information states, without exact
    chance, or with boards that do not show the moves before.
    """
    table = exact_table(player, limit)
    if table is not None and isinstance(exact_form(player.spec.name), SequenceForm):
        return exact_targets(student, table), table
    return sampled_targets(player, matches, seed, student), None


def exact_table(player: Player, limit: int) -> PolicyTable | None:
    """Return a player's exact table; None where its game has more than ``limit`` information states, or none can be."""
    spec = player.spec
    if spec.submatch_games or spec.free_text or any(role.reply is ReplyForm.FREE for role in player.roles):
        return None
    try:
        count_information_states(spec.name, limit)
        form = exact_form(spec.name)
    except UsageError:  # too large, or without known probabilities of chance
        return None
    if any(len(members) > 1 for members in player.members) and not isinstance(form, SequenceForm):
        return None
    tabulated = player.tabulate(limit=limit)
    return tabulated.table if tabulated.exact else None


def reply_targets(
    role: Role, chat: Sequence[Message], legal: Sequence[str], shares: Sequence[float], weight: float
) -> list[Target]:
    """Return the targets of a situation in which legal replies have these ``shares``: of free replies, one for each.

    Their weights, and their entropies by weight, sum to those of the choice.
    """
    if role.reply is ReplyForm.CHOICE:
        return [choice_target(role, chat, legal, shares, weight)]
    return [
        free_target(role, chat, format_reply(role, action), -math.log(share), weight * share)
        for action, share in zip(legal, shares, strict=True)
        if share > 0.0
    ]


def choice_target(
    role: Role, chat: Sequence[Message], legal: Sequence[str], shares: Sequence[float], weight: float
) -> Target:
    """Return the target of a situation: ``shares`` of the legal replies, which sum to one."""
    entropy = -math.fsum(share * math.log(share) for share in shares if share > 0.0)
    return Target(
        role.game, role.policy, tuple(chat), tuple(legal), "", tuple(shares), entropy, role.temperature, weight
    )


def free_target(role: Role, chat: Sequence[Message], reply: str, entropy: float, weight: float) -> Target:
    """Return the target of a situation in which a free reply is given: ``entropy`` is -log of its probability."""
    return Target(role.game, role.policy, tuple(chat), (), reply, (1.0,), entropy, role.temperature, weight)


def normalised(targets: Sequence[Target]) -> list[Target]:
    """Return the targets, with equal ones merged, and weights that sum to one."""
    merged: dict[object, Target] = {}
    for target in targets:
        chat = tuple([tuple(message.items()) for message in target.chat])
        key = (
            target.policy,
            chat,
            target.legal,
            target.reply,
            target.probabilities,
            target.temperature,
            target.entropy,
        )
        equal = merged.get(key)
        merged[key] = target if equal is None else equal._replace(weight=equal.weight + target.weight)
    total = math.fsum(target.weight for target in merged.values())
    return [target._replace(weight=target.weight / total) for target in merged.values()]
