"""LSPO: cluster a player's utterances, solve the game between clusters, and teach the player its equilibrium.

Latent Space Policy Optimization (Xu et al. 2025, arXiv 2502.04686): each round a player speaks, k-means makes the
latent strategy space, counterfactual regret minimisation solves the game in it, and the model is fine-tuned towards the
solution, by preferences (DPO) there. Here the sequence form solves the game exactly, and the loss is the cross-entropy
to the solution, within a cluster in the player's own proportions: in each situation

    target(utterance) = equilibrium(cluster) * pi(utterance) / pi(cluster).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import FreeText, GameSpec, Utility
from league.config import RunConfig
from league.config.teacher import LatentConfig
from league.lab.latent.embedding import ngram_vectors, state_vectors
from league.lab.latent.latent_game import LatentGame, Listening, Shown, Situation, latent_game
from league.lab.latent.space import Embed, LatentSpace, latent_space
from league.population.distillation.students import Taught, engine_of, mean_kl, students, teach, view
from league.population.distillation.targets import Target, choice_target, exact_table, normalised, reach, self_play
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.population.storage.run_dir import Run
from league.theory.exact.exploitability import exploitability
from league.theory.exact.sequence_form import Behaviour
from roles.prompts import position_messages
from roles.replies import speaking, strip_thoughts
from roles.role import ReplyForm, Role

TYPICAL = 4  # utterances of a cluster that are reported
UNLIKELY = 1e-9  # a free reply with a smaller share is not worth a pass

Progress = Callable[[str, int, int], None]  # the step, how much of it is done, of how much


class UtteranceCluster(NamedTuple):
    """A cluster of one role, as users see it."""

    role: str
    utterances: tuple[str, ...]  # the most typical ones, the nearest to its centre first
    size: int  # how many different ones occurred
    equilibrium: float  # its mean probability over the role's information states, by how likely these are


class LatentRound(NamedTuple):
    """One round. Exploitability is in the game's units; before and after are measured in the same latent space."""

    states: int  # information states of the latent game
    value: float  # of the latent game, to its first seat
    before: float  # latent exploitability of the player's utterances
    after: float
    kl_before: float  # of the targets to the player, nats a situation
    kl_after: float
    clusters: tuple[UtteranceCluster, ...]


class Lspo(NamedTuple):
    """The result of rounds of LSPO on a run's policies."""

    game: str
    taught: dict[str, Taught]
    rounds: list[LatentRound]
    exact: tuple[float, float] | None  # exploitability in the whole game, before and after; None: it has no table


def lspo(
    run: Run, source: str, game: str, engines: Engines, seed: int = 0, on_progress: Progress | None = None
) -> Lspo:
    """Teach the policies of a run that play a game; they begin as ``source``, a player of the run, plays most.

    Raises UsageError for a game that is not two-seat zero-sum, or whose latent game cannot be solved.
    """
    config, settings, tell = run.config, run.config.latent, on_progress or (lambda *_: None)
    spec = make_game(game).spec
    player = resolve(source, spec, engines)
    _check(spec, player)
    learning = students(run, {game: player})
    engine = engine_of(learning, config)
    speaker = view(player, engine)
    begun, rounds = _exploitability(speaker, config), list[LatentRound]()
    situations: Mapping[Shown, Situation] = {}
    for number in range(settings.rounds):
        round_seed = derive_seed(seed, "latent", number)
        tell(f"round {number + 1}: listening", 0, 1)
        space = _space(speaker, learning, settings, round_seed)
        how = Listening(settings.samples, settings.members, round_seed)
        before = latent_game(speaker, space, how, situations)
        value, equilibrium = before.equilibrium()
        targets = targets_of(before, equilibrium, speaker.roles)
        kls = [mean_kl(config, learning, targets)]
        for name, taught in learning.items():
            if not config.policy(name).frozen:
                teach(config, taught, targets, round_seed, partial(tell, f"round {number + 1}: teaching {name}"))
        engine.refresh()
        kls.append(mean_kl(config, learning, targets))
        after = latent_game(speaker, space, how, before.heard)
        situations = after.heard
        gains = [latent.exploitability(latent.masses) for latent in (before, after)]
        clusters = tuple(_clusters(space, before, equilibrium, speaker.roles))
        rounds.append(LatentRound(len(before.form.keys), value, gains[0], gains[1], kls[0], kls[1], clusters))
    ended = _exploitability(speaker, config)
    return Lspo(game, learning, rounds, None if begun is None or ended is None else (begun, ended))


def _check(spec: GameSpec, player: Player) -> None:
    if spec.seats != 2 or spec.utility is not Utility.ZERO_SUM:
        raise UsageError(
            f"{spec.name} is not a game of two seats in which one wins what the other loses, so the game between "
            "clusters has no value to be solved for. Take one that is, such as worded(kuhn_poker) or debate(judge=0)."
        )
    if fixed := [role.name for role in player.roles if role.fixed]:
        raise UsageError(
            f"{', '.join(fixed)} of {spec.name} has a fixed player, but LSPO trains both seats. Name a run "
            "without roles.player."
        )


def _space(speaker: Player, learning: Mapping[str, Taught], settings: LatentConfig, seed: int) -> LatentSpace:
    """Return the clusters of a player's utterances in matches with itself, including all that it might have chosen."""
    texts_by_role: dict[str, list[str]] = {role.name: [] for role in speaker.roles}
    for episode in self_play(speaker, settings.matches, seed):
        for turn in episode.turns:
            role = speaker.roles[turn.seat]
            free = bool(turn.form) or role.reply is ReplyForm.FREE
            if turn.action is not None:
                texts_by_role[turn.role] += [strip_thoughts(turn.reply).strip()] if free else turn.legal
    silent = [role for role, texts in texts_by_role.items() if not texts]
    if silent:
        raise UsageError(
            f"In {settings.matches} matches {silent[0]} said nothing legal, so there is nothing to cluster. First let "
            "it learn to speak: league train, with a cold start."
        )
    embed = {role.name: _embedding(learning[role.policy], settings) for role in speaker.roles}
    return latent_space(texts_by_role, embed, settings.clusters, seed)


def _embedding(taught: Taught, settings: LatentConfig) -> Embed:
    """Return how a role's utterances are embedded, by the model as it is now if by its states."""
    return partial(state_vectors, taught.policy.lm.frozen_copy()) if settings.embedding == "states" else ngram_vectors


def targets_of(latent: LatentGame, equilibrium: Behaviour, roles: Sequence[Role]) -> list[Target]:
    """Return the utterances to teach in each information state of a latent game, for an equilibrium [I][clusters].

    Weights as in distillation: half against the equilibrium, half against uniform play. They sum to one.
    """
    weights = reach(latent.form, equilibrium)
    targets: list[Target] = []
    for (seat, _), ids, situation, row, weight in zip(
        latent.form.keys, latent.form.legal, latent.said, equilibrium, weights, strict=True
    ):
        if weight > 0.0 and len(situation.said) > 1:
            shares = _shares(situation, dict(zip(ids, row, strict=True)))
            targets += _targets(roles[seat], situation, shares, weight)
    return normalised(targets)


def _shares(situation: Situation, wanted: Mapping[int, float]) -> list[float]:
    """Return each utterance's target probability: in proportion within a cluster, or even in a cluster never said."""
    shares = []
    for utterance, cluster in zip(situation.said, situation.clusters, strict=True):
        mass, even = situation.mass(cluster), 1.0 / situation.clusters.count(cluster)
        shares.append(wanted[cluster] * (utterance.share / mass if mass > 0.0 else even))
    return shares


def _targets(role: Role, situation: Situation, shares: Sequence[float], weight: float) -> list[Target]:
    actions = situation.match.actions()
    if role.reply is ReplyForm.CHOICE and not isinstance(actions, FreeText):
        return [choice_target(role, position_messages(role, situation.match), actions.labels, shares, weight)]
    asked_role = speaking(role) if isinstance(actions, FreeText) else role
    chat = position_messages(asked_role, situation.match)
    return [
        Target(
            *(role.game, role.policy, tuple(chat), (), utterance.reply, (1.0,)),
            *(-math.log(share), asked_role.temperature, weight * share),
        )
        for utterance, share in zip(situation.said, shares, strict=True)
        if share > UNLIKELY
    ]


def _exploitability(speaker: Player, config: RunConfig) -> float | None:
    """Return a player's exploitability in the whole game; None if it has no table."""
    table = exact_table(speaker, config.evaluation.exact_limit)
    return None if table is None else exploitability(table)


def _clusters(
    space: LatentSpace, latent: LatentGame, equilibrium: Behaviour, roles: Sequence[Role]
) -> list[UtteranceCluster]:
    """Return the clusters of each role, with their probabilities in the equilibrium."""
    clusters, weights = [], reach(latent.form, equilibrium)
    for role in roles:
        indices = [i for i, (seat, _) in enumerate(latent.form.keys) if seat == role.seat]
        texts = sorted({utterance.text for i in indices for utterance in latent.said[i].said})
        labels, total = space.clusters(role.name, texts), math.fsum(weights[i] for i in indices)
        for cluster, typical in enumerate(space.typical(role.name, texts, TYPICAL)):
            if not typical:  # of utterances in matches
                continue
            masses = [weights[i] * _said(latent.form.legal[i], equilibrium[i], cluster) for i in indices]
            clusters.append(
                UtteranceCluster(role.name, tuple(typical), labels.count(cluster), math.fsum(masses) / total)
            )
    return clusters


def _said(ids: Sequence[int], row: Sequence[float], cluster: int) -> float:
    return dict(zip(ids, row, strict=True)).get(cluster, 0.0)


def in_few_words(result: Lspo) -> str:
    """Return the result in a few words, as a snapshot keeps it."""
    first, last = result.rounds[0], result.rounds[-1]
    return f"{result.game} latent exploitability {first.before:.3g} to {last.after:.3g}"
