"""Teachers' scores of an iteration's turns: the distribution over a choice, or the log-probs of a free reply.

A teacher is any player that gives probabilities. One that draws a member for each match, such as RUN@mixture, averages
its members, each weighted by its weight times the likelihood of the student's replies so far: the behaviour strategy
equivalent to the mixture (Kuhn 1953), and in a small game exactly the mixture's table.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.contexts import request_in
from arena.records import Episode, ReplyRequest, Tabular, Turn
from arena.submatches import positions
from games.common.errors import UsageError
from games.privileged import seen, with_privileged
from games.registry import make_game
from games.spec import Game, labels
from league.config.context import RunContext
from league.config.teacher import SELF
from league.population.players.engines import Engines
from league.population.players.player import Player, as_teacher
from league.training.evidence.source import AfterPlay, Column, Source
from league.training.evidence.teacher_names import teachers_by_role
from league.training.evidence.teacher_scores import Asked, HasModels, InTraining, check_tokens, free_logprobs
from learners.trajectories import Trajectory
from roles.role import ReplyForm, Role

if TYPE_CHECKING:  # torch is slow to import
    from learners.update.policy import Policy

Floats = NDArray[np.float64]
Said = tuple[float, ...]


class Teacher(NamedTuple):
    """The teacher of one role."""

    player: Player
    role: Role  # as the teacher is asked to play it

    def of_student(self, policy: str) -> Teacher:
        """Return the teacher of a policy; the teacher "self" becomes the policy itself."""
        if not isinstance(self.player.engine, InTraining):
            return self
        return self._replace(player=replace(self.player, members=(((policy, 1.0),),) * self.player.spec.seats))

    def say(self, asked: Sequence[Sequence[Asked]]) -> Sayings:
        """Return each member's scores of each turn of each trajectory: [trajectory][turn] is [M, A] or [M, T]."""
        members = self.player.members[self.role.seat]
        return [
            [_stacked(said) for said in zip(*by_member, strict=True)]
            for by_member in zip(*(self._ask(name, asked) for name, _ in members), strict=True)
        ]

    def _ask(self, name: str, asked: Sequence[Sequence[Asked]]) -> list[list[Said]]:
        """Return one member's scores of each turn of each trajectory; () for turns that it is not asked about."""
        engine = self.player.engine_of(name)
        if refresh := getattr(engine, "refresh", None):
            refresh()  # so that its passes are the same in a run that is resumed here
        requests: dict[object, ReplyRequest] = {}
        for turn in (turn for turns in asked for turn in turns):
            if turn.legal:
                arguments = (turn.position, turn.observation, turn.legal, (), random.Random(0))
                requests.setdefault(turn.key, ReplyRequest(name, self.role, *arguments))
        answers = engine.distributions(list(requests.values())) if requests else []  # type: ignore[attr-defined]
        choices: dict[object, Said] = dict(zip(requests, answers, strict=True))
        free = [turn for turns in asked for turn in turns if turn.tokens]
        scored = iter(free_logprobs(engine.model_of(name), self.role, free) if isinstance(engine, HasModels) else ())
        return [
            [next(scored) if turn.tokens else choices[turn.key] if turn.legal else () for turn in turns]
            for turns in asked
        ]


Sayings = list[list[Floats]]


class Teachers:
    """The teachers of a run's roles. ``policies`` are in training; none: only checks without a model are made."""

    def __init__(self, context: RunContext, engines: Engines, policies: Mapping[str, Policy]) -> None:
        """Find the teachers. Raises UsageError, with the role named, for one that cannot teach it."""
        config = context.config
        self._sees, self._uniform, self._exploiters = config.teacher.sees, config.teacher.uniform, config.league_roles
        self._teachers: dict[tuple[str, str], Teacher] = {}
        cards = {(game, role.name): role for game, seats in context.roles.items() for role in seats}
        for key, name in teachers_by_role(context).items():
            self._teachers[key] = teacher = open_teacher(name, cards[key], engines, policies)
            check_teacher(teacher, cards[key], self._sees)
            if (cards[key].reply is ReplyForm.FREE or make_game(key[0]).spec.free_text) and policies:
                check_tokens(teacher.player, teacher.role, policies)

    def advise(
        self, matches: Mapping[int, Episode], trajectories: Sequence[Trajectory]
    ) -> list[tuple[Said, ...] | None]:
        """Return the teachers' scores of trajectories' turns, of matches by index; None where no teacher is asked."""
        advised: list[tuple[Said, ...] | None] = [None] * len(trajectories)
        for (game, role), teacher in self._teachers.items():
            by_student: dict[str, list[int]] = {}  # by student
            for i, trajectory in enumerate(trajectories):
                if (trajectory.game, trajectory.role) == (game, role) and trajectory.policy not in self._exploiters:
                    by_student.setdefault(trajectory.policy, []).append(i)
            for student, indices in by_student.items():
                student_teacher, questions = teacher.of_student(student), _Questions(teacher, self._sees)
                questions_of = [questions.of(trajectories[i], matches[trajectories[i].match]) for i in indices]
                prior = np.array([weight for _, weight in student_teacher.player.members[student_teacher.role.seat]])
                for i, turns, scores in zip(indices, questions_of, student_teacher.say(questions_of), strict=True):
                    advised[i] = _averaged(turns, scores, prior, self._uniform)
        return advised


def taught(_context: RunContext, play: AfterPlay) -> Column:
    """Return a teacher's scores of each turn."""
    nothing = [None] * len(play.trajectories)
    return nothing if play.teachers is None else play.teachers.advise(play.matches, play.trajectories)


def has_teacher(context: RunContext, game: str, role: str) -> bool:
    """Return whether a role has a teacher."""
    return (game, role) in teachers_by_role(context)


SOURCE = Source(taught, asked=has_teacher)


def open_teacher(name: str, role: Role, engines: Engines, policies: Mapping[str, Policy]) -> Teacher:
    """Return the teacher of a role. Raises UsageError for a player that does not exist."""
    spec = make_game(role.game).spec
    if name == SELF:
        members = (((role.policy, 1.0),),) * spec.seats
        return Teacher(Player(name, spec, InTraining(policies), (role,) * spec.seats, members), role)
    player = as_teacher(name, spec, engines, role.reply)
    return Teacher(player, player.roles[role.seat])


def check_teacher(teacher: Teacher, role: Role, sees: Sequence[str]) -> None:
    """Raise UsageError, with the setting to change, for a teacher that cannot score a role's replies."""
    where = f"{teacher.player.label} cannot teach {role.game}/{role.name}"
    engine = teacher.player.engine_of(teacher.player.members[role.seat][0][0])
    spec, models = make_game(role.game).spec, isinstance(engine, HasModels)
    if not models and not isinstance(engine, Tabular):
        raise UsageError(
            f"{where}: it plays, but does not say how likely each reply is. Name random, equilibrium, minimax, a run, "
            "a snapshot or a mixture of one, or hf:NAME; or imitate its matches: imitation.matches."
        )
    if not models and (role.reply is ReplyForm.FREE or spec.free_text):
        raise UsageError(
            f"{where}: what is said there in free text is compared token by token, and it has no tokens. Name a "
            "language model with the student's tokenizer, or set roles.reply = 'choice'."
        )
    if teacher.role.reply is not role.reply:
        raise UsageError(
            f"{where}: it answers with {teacher.role.reply.value!r} replies there, the student with "
            f"{role.reply.value!r} ones, which are worded differently. Name a teacher that answers in the same form, "
            "or set roles.reply."
        )
    if spec.submatch_games and (sees or not models):
        what = "what is hidden in" if sees else "positions of"
        raise UsageError(f"{where}: {what} matches that open submatches cannot be shown to it. Name another player.")
    _check_privileged(role, sees, models, where)
    _try(teacher, role, where)


def _check_privileged(role: Role, sees: Sequence[str], models: bool, where: str) -> None:
    """Raise UsageError for a teacher that cannot be shown privileged information, or where there is none to show."""
    if sees and not models:
        raise UsageError(
            f"{where} with teacher.sees = {list(sees)}: it plays by the rules of the game, and has no prompt that "
            "could show it more. Name a language model, or leave teacher.sees out."
        )
    if sees and not seen(make_game(role.game), role.seat, sees):
        raise UsageError(
            f"teacher.sees = {list(sees)} shows {role.name} nothing more in {role.game}: there is no such "
            "information, or the game does not provide it (games.privileged). Leave the role out of teacher.players, "
            "or leave that out of teacher.sees."
        )


def _try(teacher: Teacher, role: Role, where: str) -> None:
    """Ask a teacher that is not a model about the seat's first choice in a match, if it has one."""
    match = make_game(role.game)
    engine = teacher.player.engine_of(teacher.player.members[role.seat][0][0])
    while not isinstance(engine, HasModels) and (seat := match.to_act()) is not None:
        if seat == role.seat:
            request = request_in("", teacher.role, match, random.Random(0))
            try:
                engine.distributions([request])  # type: ignore[attr-defined]  # check_teacher has seen that
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from error
            return
        match.apply(labels(match)[0])


class _Questions:
    """The questions to a teacher about turns; ``sees`` is what it is shown beyond the student's observation."""

    def __init__(self, teacher: Teacher, sees: Sequence[str]) -> None:
        engine = teacher.player.engine_of(teacher.player.members[teacher.role.seat][0][0])
        self._blank, self._sees, self._models = make_game(teacher.role.game), sees, isinstance(engine, HasModels)

    def of(self, trajectory: Trajectory, episode: Episode) -> list[Asked]:
        """Return the questions about each turn of a trajectory."""
        position_of = {} if self._models and not self._sees else _positions(episode, trajectory)
        questions = []
        for k, turn in enumerate(trajectory.turns):
            position = position_of.get(k, self._blank)
            observation = with_privileged(turn.observation, seen(position, trajectory.seat, self._sees))
            legal, tokens = self._compared(position, turn, again=k > 0 and trajectory.turns[k - 1].action is None)
            state = "" if self._models else position.information_state(trajectory.seat)
            taken = legal.index(turn.reply) if legal else 0
            questions.append(Asked(position, observation, legal, tokens, taken, turn, (observation, legal, state)))
        return questions

    def _compared(self, position: Game, turn: Turn, again: bool) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the legal replies of a choice, or the tokens of a free reply; neither for an uncompared turn."""
        if turn.trace is None or (again and turn.trace.mask is None):  # asked again, after an illegal reply
            return (), ()
        if turn.trace.mask is None:
            return (), turn.trace.reply_ids
        fits = self._models or labels(position) == turn.trace.mask  # a tool call is not an action
        return turn.trace.mask if len(turn.trace.mask) > 1 and fits else (), ()


def _positions(episode: Episode, trajectory: Trajectory) -> dict[int, Game]:
    """Return the positions at which a trajectory's turns were taken, by turn number."""
    turn_of = {index: k for k, index in enumerate(trajectory.order)}
    match = make_game(episode.request.game)
    return {turn_of[index]: at.copy() for index, at in enumerate(positions(match, episode)) if index in turn_of}


def _averaged(turns: Sequence[Asked], scores: Sequence[Floats], prior: Floats, uniform: float) -> tuple[Said, ...]:
    """Return the members' average scores, by their prior weights [M] times the likelihood of the student's replies."""
    weights, averaged = prior / prior.sum(), list[Said]()
    for turn, shares in zip(turns, scores, strict=True):  # [M, A], or of a free reply [M, T], or nothing
        if turn.legal:
            mixed = (1.0 - uniform) * (weights @ shares) + uniform / len(turn.legal)
            averaged.append(tuple(mixed.tolist()))
            weights = _posterior(weights, shares[:, turn.taken], prior)
        elif turn.tokens:
            logprobs = []
            for token in shares.T:
                logprobs.append(float(np.log(weights @ np.exp(token - token.max())) + token.max()))
                weights = _posterior(weights, np.exp(token - token.max()), prior)
            averaged.append(tuple(logprobs))
        else:
            averaged.append(())
    return tuple(averaged)


def _posterior(weights: Floats, likely: Floats, prior: Floats) -> Floats:
    """Return the members' weights after a reply; the prior where none of them would have given it."""
    after = weights * likely
    chosen = after if after.sum() > 0.0 else prior
    return np.asarray(chosen / chosen.sum(), dtype=np.float64)


def _stacked(scores: Sequence[Said]) -> Floats:
    return np.array(scores, dtype=np.float64)
