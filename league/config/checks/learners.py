"""Checks of learner processes, of updates by several processes together, and of settings that make play converge."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping

from games.common.errors import UsageError, unknown_name
from games.registry import make_game
from games.spec import Choices, HasScripts
from league.config.run import RunConfig
from roles.replies import read_free_text
from roles.role import ReplyForm, Role

TRIALS = 8  # scripted matches that show what a seat is asked for


def check_async_learners(config: RunConfig, bound: set[str]) -> None:
    """Raise UsageError, with what to set instead, for learner processes that cannot train the ``bound`` policies."""
    settings = config.async_learners
    _check_mode(config)
    if config.checkpoint_every > 1 and settings.streams:
        raise UsageError(
            f"checkpoint_every = {config.checkpoint_every}: a stream saves its state after every iteration, because a "
            "killed run replays lost matches with the weights that they had, and only saved states hold every version "
            "of them. Set it to 1, or choose another async_learners.mode."
        )
    if settings.processes == "none" and not settings.streams:
        if settings.max_staleness:
            raise UsageError(
                f"async_learners.max_staleness = {settings.max_staleness} lets play run ahead of learners, but "
                "async_learners.processes = 'none': there are no learner processes. Set it to 'each', or "
                "max_staleness to 0."
            )
        return
    if config.league_roles and settings.processes != "none":
        raise UsageError(
            f"Exploiters and partners ({', '.join(sorted(config.league_roles))}) learn in the process that plays, "
            "which has the results of their matches. Leave them out, or set async_learners.processes = 'none'."
        )
    if config.matchmaking.response_from != "newest" and settings.processes != "none":
        raise UsageError(
            f"matchmaking.response_from = {config.matchmaking.response_from!r} returns policies to older weights "
            "depending on the results of their matches, which a learner process does not have. Set it to 'newest', or "
            "async_learners.processes to 'none'."
        )
    older = settings.batches_ahead if settings.streams else settings.max_staleness
    if older and config.objective.truncate is None and config.objective.mismatch == "truncate":
        raise UsageError(
            f"async_learners.max_staleness = {older} trains on replies that older weights drew, which "
            "need importance weights: set objective.truncate (2 is usual), and optimizer.max_gap to how far "
            "log-probs may move in that time (say, 1 nat)."
        )
    if isinstance(settings.processes, dict):
        _check_names(settings.processes, {name for name in bound if not config.policy(name).frozen})


def _check_mode(config: RunConfig) -> None:
    """Refuse settings that do not fit ``async_learners.mode``."""
    settings = config.async_learners
    if settings.mode == "turns" and settings.max_staleness:
        raise UsageError(
            f"async_learners.mode = 'turns' learns from each iteration before the next is played, but max_staleness = "
            f"{settings.max_staleness}. Set it to 0, or mode = 'ahead' or 'stream'."
        )
    if not settings.streams:
        if settings.begin_ahead is not None:
            raise UsageError(
                f"async_learners.begin_ahead = {settings.begin_ahead} is for a stream of matches. Set "
                "async_learners.mode = 'stream', or leave it out."
            )
        return
    opening = sorted(game for game in config.games if make_game(game).spec.submatch_games)
    without = (  # what does not flow, and whether it is set
        ("branching.rule: branches are played after their matches", bool(config.branching.rule)),
        (f"{', '.join(opening)}: its matches open others", bool(opening)),
        ("programs.roles: programs take turns with the newest weights", bool(config.programs.roles)),
        ("exploiters and partners: they are reset between iterations", bool(config.league_roles)),
        ("matchmaking.response_from: policies return to older weights", config.matchmaking.response_from != "newest"),
        ("starts.rule: starts are drawn from results as they come", bool(config.starts.rule)),
    )
    for what, is_set in without:
        if is_set:
            raise UsageError(
                f"async_learners.mode = 'stream' cannot be combined with {what}. Leave it out, or set mode = 'ahead'."
            )


def _check_names(learners: dict[str, tuple[str, ...]], trained: set[str]) -> None:
    """Refuse learner processes unless each trained policy is in exactly one."""
    for learner, policies in learners.items():
        if not learner.isidentifier():
            raise UsageError(
                f"A learner process cannot be named {learner!r}: that name is reserved for a folder. Use letters, "
                "digits and '_'."
            )
        for name in policies:
            if name not in trained:
                hint = (
                    f"async_learners.processes.{learner} takes policies that are trained and have roles bound to them."
                )
                raise unknown_name("trained policy", name, trained, hint)
    times = Counter(name for policies in learners.values() for name in policies)
    wrong = sorted(name for name in trained if times[name] != 1)
    if wrong:
        raise UsageError(
            f"async_learners.processes names {wrong[0]} {times[wrong[0]]} times. Every trained policy learns in one "
            f"process: name each of {', '.join(sorted(trained))} once."
        )
    empty = sorted(learner for learner, policies in learners.items() if not policies)
    if empty:
        raise UsageError(f"async_learners.processes.{empty[0]} has no policy to train. Leave it out, or name one.")


def check_optimizer(config: RunConfig, roles: Mapping[str, tuple[Role, ...]]) -> None:
    """Raise UsageError, with what to set instead, for updates that the optimiser's processes cannot take."""
    optimizer = config.optimizer
    size = int(os.environ.get("WORLD_SIZE", optimizer.processes))
    if optimizer.sharded and size == 1:
        raise UsageError(
            "optimizer.sharded shards weights over processes, but optimizer.processes = 1. Set it to the number of "
            "GPUs, or optimizer.sharded = false."
        )
    if optimizer.sharded and optimizer.name == "adamw8bit":
        raise UsageError(
            "optimizer.name = 'adamw8bit' cannot keep the state of weights that optimizer.sharded shards. "
            "Set optimizer.name = 'adamw'."
        )
    if optimizer.offload and optimizer.name == "adamw8bit":
        raise UsageError(
            "optimizer.offload moves the moments of optimizer.name = 'adamw' away, and adamw8bit has others. Set one "
            "of them: optimizer.offload = false, or optimizer.name = 'adamw'."
        )
    adding = (  # the feature, whether it is on, and how to turn it off
        (f"imitation.weight = {config.imitation.weight:g}", config.imitation.weight, "imitation.weight = 0"),
        ("beliefs.listening", config.beliefs.listening.on, "beliefs.listening.weight = 0"),
        ("prediction", any(term.on for term in config.prediction.terms.values()), "the weights of prediction to 0"),
        ("contrast", config.contrast.on, "contrast.weight = 0"),
    )
    for name, on, without in adding:
        if optimizer.sharded and on:
            raise UsageError(
                f"{name} adds passes to an update, which sharded processes (optimizer.sharded) could not make in "
                f"step. Set optimizer.sharded = false, or {without}."
            )
    masked = sorted(
        f"{game}/{role.name}"
        for game, game_roles in roles.items()
        for role in game_roles
        if role.reply is ReplyForm.CHOICE and not role.fixed and not _only_speaks(game, role.seat)
    )
    chosen = sorted(
        f"{game}/{role.name}"
        for game, game_roles in roles.items()
        for role in game_roles
        for one in role.slots
        if getattr(one.settings, "choices", ()) and (one.settings.by or not role.fixed)
    )
    for setting in ("sharded", "checkpointing"):
        if getattr(optimizer, setting) and masked:
            raise UsageError(
                f"optimizer.{setting} is for models that answer in free text, but {masked[0]} chooses among replies. "
                f"Set roles.reply = 'free', or optimizer.{setting} = false."
            )
        if getattr(optimizer, setting) and chosen:
            raise UsageError(
                f"optimizer.{setting} is for models that answer in free text, but a slot on the card of {chosen[0]} "
                f"has choices to write from. Leave them out (roles.cards), or set optimizer.{setting} = false."
            )


def _only_speaks(name: str, seat: int) -> bool:
    """Return whether a seat is asked for words at every turn that it has in some matches of scripted players.

    If so, nothing that it says is masked, whatever its card says. False for a seat without turns.
    """
    match, spoke = make_game(name), False
    for seed in range(TRIALS if match.spec.free_text else 0):
        match.reset(seed)
        rng = random.Random(seed)
        scripts = list(match.scripts().values()) if isinstance(match, HasScripts) else []
        while (actor := match.to_act()) is not None:
            actions = match.actions()
            if isinstance(actions, Choices):
                if actor == seat:
                    return False
                match.apply(rng.choice(actions.labels))
                continue
            spoke |= actor == seat
            action = read_free_text(actions, scripts[seed % len(scripts)](rng)) if scripts else None
            if action is None:
                break  # no scripted player has another reply
            match.apply(action)
    return spoke


def check_settling(config: RunConfig, roles: Mapping[str, tuple[Role, ...]]) -> None:
    """Raise UsageError, with what to set instead, for settings that cannot be combined."""
    for name, game in config.games.items():
        if config.objective.schedule == "mmd" and game.entropy_end is not None:
            raise UsageError(
                f"games.{name}.entropy_end = {game.entropy_end:g} states where a weight ends, but objective.schedule = "
                "'mmd' divides it by the root of the iteration. Leave it out, or set objective.schedule = 'geometric'."
            )
    if config.objective.magnet and config.objective.magnet_rule == "rewards":
        _check_rewards(config, roles)
    averaged = [name for name, policy in config.policies.items() if policy.average is not None]
    if averaged:
        _check_average(config, averaged[0])


def _check_rewards(config: RunConfig, roles: Mapping[str, tuple[Role, ...]]) -> None:
    """Refuse log-ratio rewards where the ratios are not known."""
    if config.async_learners.processes != "none":
        raise UsageError(
            "objective.magnet_rule = 'rewards' compares the replies of all seats with their magnets, but a learner "
            "process has only its own policies. Set it to 'loss', or async_learners.processes = 'none'."
        )
    for game, game_roles in roles.items():
        for role in game_roles:
            if role.reply is not ReplyForm.CHOICE and not role.fixed:
                raise UsageError(
                    f"objective.magnet_rule = 'rewards' needs the probability of every reply, but {game}/{role.name} "
                    "answers in free text. Set it to 'loss', or roles.reply = 'choice'."
                )


def _check_average(config: RunConfig, name: str) -> None:
    """Refuse a running mean of weights where the weights in training are measured in the snapshot's place."""
    setting = f"policies.{name}.average = {config.policies[name].average:g}"
    if config.evaluation.gate is not None:
        raise UsageError(
            f"evaluation.gate compares the weights in training with the last snapshot, but {setting} freezes their "
            "running mean. Leave one of them out."
        )
    alone = [game for game in config.games if make_game(game).spec.seats == 1]
    if alone and config.evaluation.matches:
        raise UsageError(
            f"{alone[0]} has one seat and is measured by the weights in training, but {setting} freezes their running "
            f"mean. Leave policies.{name}.average out, or set evaluation.matches = 0."
        )
