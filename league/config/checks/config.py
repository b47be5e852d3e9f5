"""Checks of a complete configuration: unknown names, and rules whose needs are not met."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from games.common.errors import UsageError, unknown_name
from games.common.registry import family
from games.common.section import LARGEST_COUNT
from games.registry import make_game, with_submatches
from games.spec import Utility
from league.config.checks.credit import check_credit
from league.config.checks.features import (
    check_beliefs,
    check_branching,
    check_curriculum,
    check_discounts,
    check_prediction,
    check_shaping,
    check_teacher_settings,
)
from league.config.checks.learners import check_async_learners, check_optimizer, check_settling
from league.config.plugins import chosen_entries
from league.config.run import RunConfig
from league.config.suite import check_training
from roles.role import Role, Roles, bound_policies

# Families whose entries refuse a run by ``check(config)``; other families' checks take more and are called elsewhere.
CHECKED = ("matchmaking", "league_roles", "meta_solvers", "joint_solvers", "starts", "branching", "breeding")


def check_config(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for a configuration that could not train."""
    names = [f"{game}/{role.name}" for game, game_roles in roles.items() for role in game_roles]
    _check_role_keys(config, names)
    for name in set(config.programs.roles) & set(config.roles.player):
        raise UsageError(
            f"programs.roles lets a program play {name}, but roles.player gives it to "
            f"{config.roles.player[name]!r}, which is not trained. Keep one of them."
        )
    if config.evaluation.suite_matches and config.evaluation.suite is None:
        raise UsageError(
            "evaluation.suite_matches needs a suite. Set evaluation.suite, for example to mars, or leave it out."
        )
    if config.evaluation.suite is not None:
        check_training(config.evaluation.suite, with_submatches(config.games), config.evaluation.train_on_held_out)
    _check_large(config)
    _check_distilling(config)
    _check_exploiters(config, roles)
    _check_meta_solvers(config, roles)
    bound = set(bound_policies(roles))
    _check_given(config, roles, bound)
    _check_policies(config, bound)
    _check_gate(config, roles, bound)
    check_curriculum(config, roles)
    check_async_learners(config, bound)
    check_optimizer(config, roles)
    check_credit(config, roles)
    check_settling(config, roles)
    check_teacher_settings(config, names, roles)
    check_beliefs(config, roles)
    check_prediction(config, roles)
    check_shaping(config, roles)
    family("trainers")[config.trainer.kind].refuse(config, roles)
    _check_entries(config)
    for game, game_roles in roles.items():
        if game in config.games:  # the number of submatches is not configured
            _check_groups(config, game)
            _check_starts(config, game)
            check_branching(config, game, game_roles)
            check_discounts(config, game, game_roles)
        _check_update_sizes(config, game, game_roles)


def _check_role_keys(config: RunConfig, names: Collection[str]) -> None:
    """Refuse keys of tables by role that name no role of the run (``names``, as game/role)."""
    by_section: dict[str, Iterable[str]] = {
        "roles.policy": config.roles.policy,
        "roles.player": config.roles.player,
        "credit.rules": config.credit.rules,
        "credit.settings": config.credit.settings,
        "objective.epo_ends": config.objective.epo_ends,
        "values.estimators": config.values.estimators,
        "programs.roles": config.programs.roles,
        "contrast.roles": config.contrast.roles,
    }
    tables = {"beliefs": config.beliefs.terms, "prediction": config.prediction.terms, "shaping": config.shaping.terms}
    for table, terms in tables.items():
        by_section |= {f"{table}.{term}.roles": settings.roles for term, settings in terms.items()}
    for section, by_role in by_section.items():
        for name in by_role:
            if name not in names:
                raise unknown_name("role", name, names, f"{section} takes keys of the form game/role.")


def _check_given(config: RunConfig, roles: Roles, bound: set[str]) -> None:
    """Refuse fixed players that the run could not train with."""
    for name, player in config.roles.player.items():
        if name in config.roles.policy:
            raise UsageError(
                f"{name} has a policy, {config.roles.policy[name]!r}, in roles.policy and a player, {player!r}, in "
                "roles.player. Keep one of them: a fixed player is not trained."
            )
        if player in bound or player in config.policies:
            raise UsageError(
                f"roles.player gives {name} to {player!r}, which is also the name of a policy of this run. Rename the "
                "policy; to let a policy of the run play a role, use roles.policy."
            )
        game = name.rpartition("/")[0]
        if config.matchmaking.swap_every and game in config.games:
            raise UsageError(
                f"matchmaking.swap_every = {config.matchmaking.swap_every} moves policies to other seats, but in "
                f"{game} roles.player keeps a seat for {player}. Leave one of them out."
            )
    for game in config.games:
        if not bound_policies({below: roles[below] for below in with_submatches([game])}):
            raise UsageError(f"roles.player gives away every role of {game}, so it would train nothing. Leave one out.")


def _check_large(config: RunConfig) -> None:
    """Refuse games whose curve of exploitability was asked for and could not be drawn; of others there is none."""
    if not (config.evaluation.exact and config.evaluation.large_every):
        return
    from league.theory.public.from_openspiel import obstacle  # loads OpenSpiel

    for game in config.games:
        if why := obstacle(game):
            every = config.evaluation.large_every
            raise UsageError(
                f"evaluation.large_every = {every} asks for the exact exploitability of {game}. "
                f"{why.rstrip('.')}. Or set evaluation.large_every = 0."
            )


def _check_distilling(config: RunConfig) -> None:
    """Refuse distillation between two snapshots, or next to an engine that fills the GPU."""
    every, frozen = config.distil_every, config.snapshot_every
    if every % frozen:
        raise UsageError(
            f"distil_every = {every} is not a multiple of snapshot_every = {frozen}: a mixture changes when snapshots "
            f"are frozen. Set it to {max(every - every % frozen, frozen)}."
        )
    if every and not config.engine.in_process and not config.distil.in_place:
        raise UsageError(
            f"distil_every = {every} asks the whole mixture in the run's own process, and engine.kind = "
            f"{config.engine.kind!r} plays in another. Distil afterwards instead: league lab distil RUN@mixture"
        )
    if every and config.distil.in_place:
        _check_in_place(config)


def _check_in_place(config: RunConfig) -> None:
    """Refuse to teach policies in training where they are not, or not whole, in the run's own process."""
    learners, processes = config.async_learners.processes, config.optimizer.processes
    elsewhere = (
        ("async_learners.processes", learners, "async_learners.processes = 'none'", learners == "none"),
        ("trainer.kind", config.trainer.kind, "trainer.kind = 'torch'", config.trainer.learns_here),
        ("optimizer.processes", processes, "optimizer.processes = 1", processes == 1),
    )
    for setting, given, instead, here in elsewhere:
        if not here:
            raise UsageError(
                f"distil.in_place teaches the policies in training, in the run's own process, and {setting} = "
                f"{given!r} has them in others. Set {instead}, or distil.in_place = false: the distilled model is then "
                "a snapshot beside them."
            )
    if config.async_learners.streams:
        raise UsageError(
            "distil.in_place gives policies other weights between two iterations, and async_learners.mode = 'stream' "
            "has none. Set it to 'ahead', or distil.in_place = false."
        )


def _check_gate(config: RunConfig, roles: Roles, bound: set[str]) -> None:
    """Refuse a gate that compares a policy with its last snapshot on fewer than two deals, which have no spread."""
    settings = config.evaluation
    if settings.gate is None and settings.gate_flips is None:
        return
    gate = "evaluation.gate" if settings.gate is not None else "evaluation.gate_flips"
    if settings.gate_until_decided and settings.gate is not None and settings.gate <= 0.5:
        raise UsageError(
            "evaluation.gate_until_decided stops when the gate's confidence is reached, but evaluation.gate = 0.5 "
            "requires none. Set it above 0.5, for example to 0.95."
        )
    matches = config.evaluation.matches
    for policy in sorted(bound):
        seats = [sum(role.policy == policy for role in roles[game]) for game in config.games]
        needed = min((seat_count + 2 for seat_count in seats if seat_count), default=None)
        if needed is None:
            raise UsageError(
                f"{gate} compares {policy} with its last snapshot in the run's games, but {policy} plays only "
                f"in the matches that those open. Leave {gate} out."
            )
        if sum(-(-matches // (seat_count + 1)) for seat_count in seats if seat_count) < 2:
            raise UsageError(
                f"{gate} compares {policy} with its last snapshot on at least two deals, for which "
                f"evaluation.matches = {matches} is too few. Set it to {needed} or more; small gains need hundreds."
            )


def _check_policies(config: RunConfig, bound: set[str]) -> None:
    for name, policy in config.policies.items():
        if name not in bound and policy.bound:
            hint = "No role is bound to it: set roles.policy, or give it the league_role of an exploiter or a partner."
            raise unknown_name("policy", name, bound, hint)
        if name in bound and not policy.bound:
            raise UsageError(
                f"policies.{name}.league_role = {policy.league_role!r}, but a role is bound to {name}. Exploiters and "
                "partners take every seat and are bound to none: leave it out of roles.policy, or set league_role = "
                "'main'."
            )
        if policy.held_out and not family("league_roles")[policy.league_role].cooperates:
            raise UsageError(
                f"policies.{name}.held_out = true is for partners, but its league_role is {policy.league_role!r}. "
                "Leave it out, or set league_role = 'partner'."
            )
    trained = {name for name in bound if name not in config.policies or not config.policies[name].frozen}
    if not trained:
        raise UsageError(f"All policies ({_listed(bound)}) are frozen, so nothing would be trained. Unfreeze one.")
    if config.alternate and len(trained) < 2:
        raise UsageError(
            f"alternate = {config.alternate} lets policies take turns, but only {_listed(trained)} is trained. "
            "Bind roles to several policies (roles.policy), or set alternate = 0."
        )


def _check_exploiters(config: RunConfig, roles: Roles) -> None:
    exploiters = [name for name in config.league_roles if not config.policy(name).frozen]
    share = config.exploiters.share * len(exploiters)
    if exploiters and share >= 1.0:
        raise UsageError(
            f"exploiters.share = {config.exploiters.share} for each of {len(exploiters)} exploiters and partners "
            f"leaves the main policies no match. Set it below {1 / len(exploiters):.3g}."
        )
    if exploiters and all(sum(not role.fixed for role in game_roles) < 2 for game_roles in roles.values()):
        seat = "one seat without a fixed player" if config.roles.player else "one seat"
        raise UsageError(
            f"{_listed(exploiters)} have nobody to exploit and no partner: every game of the run has {seat}."
        )
    if exploiters and not any(config.model_of(name) == config.model for name in bound_policies(roles)):
        raise UsageError(
            f"{_listed(exploiters)} starts from [model], but no policy that they meet does: each has its own "
            "model (policies.NAME.model). Set [model] to what one of them has."
        )
    if config.exploiters.freeze_from > config.exploiters.freeze_after:
        raise UsageError(
            f"exploiters.freeze_from = {config.exploiters.freeze_from} is later than exploiters.freeze_after = "
            f"{config.exploiters.freeze_after}. Set it no higher."
        )


def check_share_of_matches(config: RunConfig, roles: Roles) -> None:
    """Refuse a share of the matches that gives an exploiter or partner none in any game: it would join untrained.

    For runs that begin: one that has begun so can still be read, and goes on.
    """
    share = config.exploiters.share
    for name in (name for name in config.league_roles if not config.policy(name).frozen):
        least_share, learns = 1.0, False
        for game, settings in config.games.items():
            free_seats = sum(not role.fixed for role in roles[game])
            groups = settings.matches // config.matchmaking.matches_of_start(make_game(game).spec.max_turns)
            least = family("league_roles")[config.policy(name).league_role].least_groups(free_seats)
            if free_seats > 1 and groups >= least:
                least_share = min(least_share, math.ceil(1000 * least / groups) / 1000)
                learns |= int(groups * share) >= least
        if not learns:
            remedy = f"Set it to {least_share:g} or more" if least_share < 1.0 else "Play more matches in a game"
            raise UsageError(
                f"exploiters.share = {share:g} gives {name} no match to learn from, so that it would join the "
                f"population untrained. {remedy}, or leave {name} out. In a run that is evolved, "
                f"policies.{name}.frozen = true keeps it as it is."
            )


def _check_meta_solvers(config: RunConfig, roles: Roles) -> None:
    """Refuse meta-solvers that cannot solve the meta-games of a run whose roles have different policies."""
    asymmetric = [game for game, game_roles in roles.items() if len({role.policy for role in game_roles}) > 1]
    solvers = {"evaluation.mixture": config.evaluation.mixture}
    solvers |= {"matchmaking.psro_solver": config.matchmaking.psro_solver} if config.matchmaking.psro else {}
    for setting, solver in solvers.items():
        entry = family("meta_solvers")[solver]
        if asymmetric and entry.by_seat is None and not entry.by_age:
            raise UsageError(
                f"{setting} = {solver!r} is for players that take all seats, but in {asymmetric[0]} roles have "
                "different policies. Use nash, prd, linear or uniform."
            )
        for game in asymmetric:
            if entry.zero_sum and (len(roles[game]) != 2 or make_game(game).spec.utility is Utility.GENERAL_SUM):
                raise UsageError(
                    f"{setting} = {solver!r} solves zero-sum games of two seats; {game} is not "
                    "one. Use prd, linear or uniform, or matchmaking.jpsro instead of psro."
                )


def _check_entries(config: RunConfig) -> None:
    """Let each entry that the run chooses, by name or weight, check the run."""
    for group, name in chosen_entries(config):
        if group in CHECKED and (check := family(group)[name].check) is not None:
            check(config)


def _check_groups(config: RunConfig, game: str) -> None:
    matches, turns = config.games[game].matches, make_game(game).spec.max_turns
    size = config.matchmaking.matches_of_start(turns)
    if size > LARGEST_COUNT:
        raise UsageError(
            f"matchmaking.tree = {config.matchmaking.tree} in {game}, of up to {turns} turns, would take more than "
            f"{LARGEST_COUNT:,} matches of every start. Choose a credit rule without trees, or a shorter game."
        )
    if matches % size:
        trees = f"trees of {config.matchmaking.tree} replies to the power of {turns} turns: {size} matches"
        groups = trees if config.matchmaking.tree else f"groups of matchmaking.group_size = {size}"
        valid = [number for number in (matches - matches % size, matches + size - matches % size) if number]
        raise UsageError(
            f"games.{game}.matches = {matches} cannot be cut into {groups}. Set {' or '.join(map(str, valid))}."
        )


def _check_starts(config: RunConfig, game: str) -> None:
    """Refuse a pool with fewer starts than an iteration plays."""
    spec = make_game(game).spec
    deals = config.games[game].matches // config.matchmaking.matches_of_start(spec.max_turns)
    if config.starts.rule is not None and deals > config.starts.size:
        raise UsageError(
            f"starts.size = {config.starts.size} is less than the {deals} deals of {game} in an iteration, each of "
            f"which has a start of its own. Set it to {deals} or more."
        )


def _check_update_sizes(config: RunConfig, game: str, roles: tuple[Role, ...]) -> None:
    """Refuse an update that is smaller than one group or tree of matches, which is never split."""
    size, unit = config.matchmaking.group_size, f"group of matchmaking.group_size = {config.matchmaking.group_size}"
    if config.matchmaking.tree and game in config.games:
        size = config.matchmaking.matches_of_start(make_game(game).spec.max_turns)
        unit = f"tree of matchmaking.tree = {config.matchmaking.tree} in {game}, {size}"
    for name in dict.fromkeys([*(role.policy for role in roles if not role.fixed), *config.league_roles]):
        matches = config.policy(name).matches
        if matches is not None and matches < size:
            raise UsageError(
                f"policies.{name}.matches = {matches} is less than one {unit} matches. Set it to that or more."
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
