"""Players by the names that users write.

These are ``random``, ``always:ACTION``, ``equilibrium``, ``minimax``, ``mcts:SIMS``, ``scripted:NAME``, ``RUN``,
``RUN@SNAPSHOT``, ``RUN@mixture``, ``best_response:DIR``, ``bayes:PLAYER,PLAYER``, ``hf:NAME`` and ``openai:MODEL``.

A player is resolved for one game. A run's snapshots play with the role cards and overrides of that run, and a mixture
draws one snapshot for each of its seats when a match begins.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.records import Cast, Sampler, Tabular
from games.common.errors import UsageError, unknown_name
from games.registry import make_game, with_submatches
from games.spec import GameSpec
from league.config import RolesConfig
from league.config.load import seat_roles
from league.population.models.source import model_folder
from league.population.players.engines import Engines
from league.population.players.hub import check_model
from league.population.players.remote import remote_roles
from league.population.players.scripted import scripted_forms
from league.population.players.tabulating import REPLIES_PER_STATE, PolicyReader, TabulatedPolicy
from league.population.storage.identity import KeptNotes, suffix
from league.population.storage.notes import NOTES_FOLDER, kept_places, notes_of
from league.population.storage.run_dir import DISTILLED, Run, find_run, run_names
from league.theory.beliefs import two_seat_form
from league.theory.exact.exploitability import POINT_LIMIT, PolicyTable, mixture, tabulate
from league.theory.exact.states import Key
from roles.cards import load_roles
from roles.demonstrations import can_be_drawn
from roles.role import ReplyForm, Role
from roles.wording import wording_for

if TYPE_CHECKING:
    from arena.samplers.policy_net import PolicyNetEngine, Reference
    from league.population.players.believer import Believer

Mixture = tuple[tuple[str, float], ...]  # player ids and their weights, which sum to one


@dataclass(frozen=True, slots=True)
class Player:
    """One player in one game."""

    label: str  # the name that the user wrote
    spec: GameSpec
    engine: Sampler
    roles: tuple[Role, ...]  # [seats]
    members: tuple[Mixture, ...]  # the player ids drawn from in each seat  # [seats]
    team: tuple[Player, ...] = ()  # the same player in the games of its submatches
    others: tuple[tuple[str, Sampler], ...] = ()  # engines of members that ``engine`` does not play
    kept: tuple[tuple[str, KeptNotes], ...] = ()  # the notes of members that keep some

    def cast(self, rng: random.Random) -> tuple[Cast, ...]:
        """Return the player ids in the seats of a match's submatches, by game."""
        return tuple(
            Cast(p.spec.name, tuple(p.draw(seat, rng) for seat in range(p.spec.seats)), (False,) * p.spec.seats)
            for p in self.team
        )

    def engine_of(self, identity: str) -> Sampler:
        """Return the engine of one of the members."""
        return dict(self.others).get(identity, self.engine)

    def engines(self) -> dict[str, Sampler]:
        """Return the engines of all members, including its team's, by player id."""
        return {
            identity: player.engine_of(identity)
            for player in (self, *self.team)
            for members in player.members
            for identity, _ in members
        }

    def draw(self, seat: int, rng: random.Random) -> str:
        """Return the player id in a seat for one match."""
        ids, weights = zip(*self.members[seat], strict=True)
        return str(rng.choices(ids, weights)[0]) if len(ids) > 1 else str(ids[0])

    def tabulate(self, seed: int = 0, limit: int = POINT_LIMIT, replies: int = REPLIES_PER_STATE) -> TabulatedPolicy:
        """Return the policy as a table of the whole game; of a mixture, the equivalent behaviour policy.

        Exact where the engine gives its distributions and replies are ``choice``; otherwise from an endpoint's
        log-probs, or estimated from ``replies`` sampled at each state, drawn with ``seed``. Raises UsageError for a
        game with more than ``limit`` information states.
        """
        rows: dict[Key, tuple[float, ...]] = {}
        counts: dict[Key, tuple[int, ...]] = {}
        readers: list[PolicyReader] = []
        mixed_counts = False
        for members in dict.fromkeys(self.members):  # seats with the same members are tabulated once
            own = [
                PolicyReader(
                    identity, self.engine_of(identity), self.roles, random.Random(f"{seed}/{identity}"), replies
                )
                for identity, _ in members
            ]
            readers += own
            tables = [tabulate(self.spec.name, reader, limit) for reader in own]
            mixed = mixture(tables, [weight for _, weight in members]) if len(tables) > 1 else tables[0]
            rows.update((key, row) for key, row in mixed.probabilities.items() if self.members[key[0]] == members)
            if len(own) == 1:
                read = own[0].counts(self.spec.name, limit)
                counts.update((key, row) for key, row in read.items() if self.members[key[0]] == members)
            else:
                mixed_counts |= any(reader.replies for reader in own)
        return TabulatedPolicy.of(PolicyTable(self.spec.name, rows), readers, None if mixed_counts else counts)


def resolve(text: str, spec: GameSpec, engines: Engines) -> Player:
    """Return the player that ``text`` names, in a game and in those of its submatches.

    Raises UsageError that offers the nearest valid names.
    """
    player = _resolve_in_game(text, spec, engines)
    submatches = with_submatches([spec.name])[1:] if spec.submatch_games else []
    return replace(player, team=tuple(_resolve_in_game(text, make_game(name).spec, engines) for name in submatches))


def _resolve_in_game(text: str, spec: GameSpec, engines: Engines) -> Player:
    """Return the player that ``text`` names, without its submatches."""
    if engine := engines.scripted(text) or exploiter(text, engines) or believer(text, spec, engines):
        return Player(text, spec, engine, seat_roles(RolesConfig(), spec), (((text, 1.0),),) * spec.seats)
    if server := engines.remote(text):
        roles = remote_roles(server.settings, spec, engines.settings)
        return Player(text, spec, server, roles, (((text, 1.0),),) * spec.seats)
    if text.startswith("hf:"):
        return _checkpoint(text, spec, engines)
    name, at, which = text.partition("@")
    path = find_run(name)
    if path is not None and at and not which:
        raise UsageError(f"{text}: no snapshot is named after the @. Write {name}@mixture, {name}@SNAPSHOT, or {name}.")
    if path is None:
        forms = "RUN, RUN@SNAPSHOT, RUN@mixture, best_response:DIR, bayes:PLAYER,PLAYER, hf:NAME or openai:MODEL"
        hint = f"A player is {', '.join(scripted_forms())}, {forms}."
        raise unknown_name("player", name, [*scripted_forms(), *run_names()], hint)
    return _from_run(text, Run(path), which, spec, engines)


def _from_run(text: str, run: Run, which: str, spec: GameSpec, engines: Engines) -> Player:
    """Return a run's newest snapshots (``which`` is ""), its mixture, or one snapshot, in every seat."""
    config, of_run = engines.run_config(run).roles, run.config.roles
    if which == DISTILLED:  # which may answer otherwise than the policies in training
        of_run = run.config.distilled_roles
        config = engines.settings.roles(of_run)
    roles, own = list(seat_roles(config, spec)), seat_roles(of_run, spec)
    places = tuple(kept_places({spec.name: tuple(role for role in roles if not role.fixed)})) if config.stores else ()
    by_seat: list[Mixture] = []
    others: dict[str, Sampler] = {}
    kept: dict[str, KeptNotes] = {}
    engine: Any = None
    for role in tuple(roles):
        if role.fixed:  # its fixed player in the run plays it here too
            fixed_player = resolve(role.policy, spec, engines)
            roles[role.seat] = fixed_role(role, fixed_player)
            by_seat.append(fixed_player.members[role.seat])
            others |= fixed_player.engines()
            kept |= dict(fixed_player.kept)
            continue
        home, prefix = (run.distilled, f"{DISTILLED}/") if which == DISTILLED else (run.population, "")
        if which in ("", "mixture") and not run.population.all(role.policy):
            raise _never_trained(run, role, spec)
        members: list[tuple[str, float]] = []
        for snapshot, weight in run.members(which, role.policy, spec.name, role.seat):
            plain, its = f"{run.path}@{prefix}{snapshot.id}", engines.of_run(run, snapshot)
            name = plain + suffix(snapshot, own, roles, notes=config.stores)
            for each in dict.fromkeys((plain, name)):  # who has given it a role calls it by its plain name
                its.register(each, snapshot.path, partial(home.verify, snapshot), engines.adapters(run, snapshot))
            if places and snapshot.notes:
                kept[name] = KeptNotes(run.path, notes_of(run.path / NOTES_FOLDER, snapshot.notes, snapshot.id), places)
            members.append((name, weight))
            engine = engine or its
            if its is not engine:
                others[name] = its
        by_seat.append(tuple(members))
    engine = engine or next(iter(others.values()))
    found = tuple(others.items()), tuple(kept.items())
    return Player(text, spec, engine, tuple(roles), tuple(by_seat), others=found[0], kept=found[1])


def _never_trained(run: Run, role: Role, spec: GameSpec) -> UsageError:
    """Return the error for a role that none of a run's policies plays, with a snapshot that could take it."""
    roles = run.config.roles.policy
    bound = {policy: sorted(key for key, its in roles.items() if its == policy) for policy in set(roles.values())}
    newest = {snapshot.policy: snapshot for snapshot in run.population.all()}
    policies = [f"{name} ({', '.join(bound[name])})" if bound.get(name) else name for name in sorted(newest)]
    examples = " or ".join(f"{run.path}@{newest[name].id}" for name in sorted(newest))
    return UsageError(
        f"{run.path} never trained the role {role.name} of {spec.alias}: its policies are {', '.join(policies)}. A "
        f"named snapshot takes every seat: {examples}."
    )


def with_probes(player: Player) -> Player:
    """Return a player whose seats are asked the probes of the game's card, outside the match.

    Raises UsageError for a game whose card has none.
    """
    probes = [role.probes for role in load_roles(player.spec, probes=True)]
    if not any(probes):
        raise UsageError(
            f"--beliefs asks the probes of a role card, and the card of {player.spec.alias} has none. Choose a game "
            "with probes, such as hidden_roles or signalling, or a card with a [[probe]] table (league show docs "
            "beliefs)."
        )
    roles = [
        role.model_copy(update={"probes": seat_probes}) for role, seat_probes in zip(player.roles, probes, strict=True)
    ]
    return replace(player, roles=tuple(roles))


def fixed_role(role: Role, player: Player) -> Role:
    """Return a run's role as its fixed player is prompted: by the player's own card, under the run's role name."""
    return player.roles[role.seat].model_copy(update={"name": role.name, "policy": role.policy, "fixed": True})


def _checkpoint(text: str, spec: GameSpec, engines: Engines, reply: ReplyForm | None = None) -> Player:
    """Return a model from a folder in Hugging Face layout or from the hub, in the built-in roles.

    It answers as ``reply`` says, else as the engines' settings do.
    """
    settings = engines.settings if reply is None else engines.settings._replace(reply=reply.value)
    source = text.removeprefix("hf:")
    if not source:
        raise UsageError(
            "hf: takes a name of `league models`, a folder, a .gguf file or a hub id, for example hf:Qwen/Qwen3-0.6B."
        )
    check_model(source, text, adapters=True)
    folder = model_folder(source)
    engine = engines.checkpoint(text, folder, spec.name)
    engine.register(text, folder)
    config = RolesConfig(wording=wording_for(folder).value)
    speaks = spec.free_text or settings.reply == ReplyForm.FREE
    if config.wording == "full" and speaks and can_be_drawn(make_game(spec.name)):
        config = RolesConfig(wording="full", demonstrations=1)  # without it, few replies would be legal
    roles = seat_roles(settings.roles(config), spec)
    return Player(text, spec, engine, roles, (((text, 1.0),),) * spec.seats)


def as_teacher(text: str, spec: GameSpec, engines: Engines, reply: ReplyForm) -> Player:
    """Return the player that ``text`` names; one that answers in any form, ``hf:NAME``, answers as its student does.

    Raises UsageError as ``resolve``.
    """
    return _checkpoint(text, spec, engines, reply) if text.startswith("hf:") else resolve(text, spec, engines)


def exploiter(text: str, engines: Engines) -> PolicyNetEngine | None:
    """Return the engine of ``best_response:DIR``, None for any other player. Raises UsageError for a bad folder."""
    if not text.startswith("best_response:"):
        return None
    return engines.exploiter(
        text, partial(_load_exploiter, Path(text.removeprefix("best_response:")).expanduser(), engines)
    )


def believer(text: str, spec: GameSpec, engines: Engines) -> Believer | None:
    """Return the engine of ``bayes:PLAYER,PLAYER``, None for any other. Raises UsageError if it cannot play."""
    if not text.startswith("bayes:"):
        return None
    names = text.removeprefix("bayes:").split(",")
    if not all(names):
        raise UsageError(f"{text}: bayes takes the players that it may meet, for example bayes:random,always:bet.")
    two_seat_form(spec.name)
    candidates = [resolve(name, spec, engines) for name in names]
    return engines.believer(text, spec.name, lambda: [player.tabulate().table for player in candidates])


def _load_exploiter(folder: Path, engines: Engines) -> PolicyNetEngine:
    from arena.samplers.policy_net import PolicyNetEngine, load_facts, load_network  # torch is slow to import

    facts = load_facts(folder)
    spec, limited = make_game(facts.game).spec, facts.budget.limited
    return PolicyNetEngine(
        load_network(folder, facts),
        facts.game,
        seats=facts.seats,
        budget=facts.budget,
        reference=reference_of(resolve(facts.reference, spec, engines)) if limited else None,
        greedy=facts.greedy,
    )


def reference_of(player: Player) -> Reference:
    """Return a player as a budget's reference policy. Raises UsageError if its policy is not known exactly."""
    from arena.samplers.policy_net import Reference  # torch is slow to import

    engine = player.engine
    if any(len(members) > 1 for members in player.members):
        raise UsageError(
            f"{player.label} is a mixture, drawn again for each match, so it has no single policy to stay close to. "
            "Name one player with --reference, for example RUN or random."
        )
    if not isinstance(engine, Tabular) or player.others or any(r.reply is not ReplyForm.CHOICE for r in player.roles):
        raise UsageError(
            f"{player.label} cannot be the reference of a budget, because its probabilities are not known. Name "
            "random, equilibrium, or a language model whose replies are 'choice', with --reference."
        )
    return Reference(engine, tuple(members[0][0] for members in player.members), player.roles)
