"""A game as an environment of verifiers (https://github.com/PrimeIntellect-ai/verifiers): a model has one seat.

A rollout is a match. At each turn the model gets the league's prompt: the role's instructions and the position, and
after an illegal reply the reason. So a match's prompts are not prefixes of one another, and a trainer reads a rollout
turn by turn (``state["trajectory"]``). The reward is the seat's return, in the game's units.
The only importer of verifiers and, for its rows, of datasets.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

from arena.records import Episode, MatchRequest, Reply, ReplyRequest
from arena.referee import play_match
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from league.config import RolesConfig
from league.config.load import seat_roles
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.population.storage.run_dir import load_plugins_of
from roles.chat_text import Message
from roles.prompts import messages
from roles.role import Role

try:
    import verifiers as vf
    from datasets import Dataset
except ModuleNotFoundError as error:
    if error.name not in ("verifiers", "datasets"):
        raise
    raise UsageError(
        "league.load_environment makes environments of verifiers, which is not installed. Install it: "
        "pip install 'llm-league[verifiers]'"
    ) from None

MODEL = "model"  # the player id of the model that verifiers calls


def load_environment(
    game: str = "kuhn_poker",
    against: str = "random",
    matches: int = 1000,
    evaluation_matches: int = 100,
    retries: int = 1,
    seed: int = 0,
) -> MatchEnv:
    """Return the environment of a game whose other seats are played by ``against``, a player as on the command line.

    A row is a match: a deal, and the seat of the model, which has each seat in turn. An illegal reply may be retried
    ``retries`` times before the seat forfeits. Rows for evaluation use other deals. Raises UsageError for a game or
    player that does not exist, and for a game whose matches open others.
    """
    load_plugins_of([against])
    spec = make_game(game).spec
    if spec.submatch_games:
        raise UsageError(f"Matches of {spec.name} open matches of other games, which verifiers cannot be asked for.")
    conduct = {"on_illegal": "retry", "retries": retries} if retries else {"on_illegal": "forfeit"}
    roles = seat_roles(RolesConfig.model_validate({"reply": "free", "wording": "full", **conduct}), spec)
    matchmaker = _Matches(resolve(against, spec, Engines()), roles, seed)
    train, evaluation = matchmaker.rows(0, matches), matchmaker.rows(matches, evaluation_matches)
    return MatchEnv(matchmaker, dataset=Dataset.from_list(train), eval_dataset=Dataset.from_list(evaluation))


class _Match:
    """One match, up to the model's next turn; ``episode`` is None until it is over."""

    def __init__(self, request: MatchRequest, seat: int, roles: tuple[Role, ...], opponent: Player) -> None:
        self._seat, self._opponent = seat, opponent
        game = make_game(request.game)
        self._play: Generator[Any, Any, Episode] = play_match(request, game, roles)
        self._asked: ReplyRequest | None = None
        self.episode: Episode | None = None
        self._advance(None)

    @property
    def prompt(self) -> list[Message]:
        """The chat for the model's present turn; empty when the match is over."""
        request = self._asked
        if request is None:
            return []
        return messages(request.role, request.observation, request.legal, request.refusals, request.form)

    def answer(self, text: str) -> None:
        """Play the model's reply, and those of the other seats up to its next turn."""
        self._advance(Reply(text))

    def _advance(self, reply: Reply | None) -> None:
        try:
            request = self._play.send(reply)
            while request.role.seat != self._seat:
                request = self._play.send(self._opponent.engine.sample([request])[0])
            self._asked = request
        except StopIteration as end:
            self._asked, self.episode = None, end.value


class _Matches:
    """The matches of an environment by number; each can be started any number of times, and always starts the same."""

    def __init__(self, opponent: Player, roles: tuple[Role, ...], seed: int) -> None:
        self._opponent, self._roles, self._seed = opponent, roles, seed
        self.spec = opponent.spec

    def begin(self, number: int) -> _Match:
        """Return a match at the model's first turn."""
        name, seats = self.spec.name, self.spec.seats
        deal, seat = divmod(number, seats)
        rng = random.Random(derive_seed(self._seed, "members", name, number))
        players = [self._opponent.draw(other, rng) for other in range(seats)]
        players[seat] = MODEL
        roles = [self._roles[seat] if other == seat else self._opponent.roles[other] for other in range(seats)]
        seeds = (derive_seed(self._seed, "deal", name, deal), derive_seed(self._seed, "sample", name, number))
        request = MatchRequest(number, name, *seeds, tuple(players), (False,) * seats, rule="verifiers")
        return _Match(request, seat, tuple(roles), self._opponent)

    def rows(self, first: int, number: int) -> list[dict[str, Any]]:
        """Return matches as rows, without those that end before the model has a turn."""
        rows = []
        for index in range(first, first + number):
            if prompt := self.begin(index).prompt:
                info = {"match": index, "game": self.spec.name, "seat": index % self.spec.seats}
                rows.append({"prompt": prompt, "answer": "", "info": info})
        return rows


class MatchEnv(vf.MultiTurnEnv):  # type: ignore[misc]  # verifiers is untyped here
    """One seat of a game, the others played by an opponent. The match is in ``state["match"]``."""

    def __init__(self, matches: _Matches, **settings: Any) -> None:
        self._matches = matches
        rubric = vf.Rubric(funcs=[self.match_return, illegal_replies], weights=[1.0, 0.0])
        super().__init__(rubric=rubric, **settings)

    async def setup_state(self, state: Any) -> Any:
        """Begin the match of a row."""
        state["match"] = self._matches.begin(state["info"]["match"])
        return state

    async def get_prompt_messages(self, state: Any) -> list[Message]:
        """Play the model's last reply, and return its next prompt."""
        match: _Match = state["match"]
        if state["trajectory"]:
            match.answer(str(state["trajectory"][-1]["completion"][-1].get("content") or ""))
        if match.episode is not None:
            state["final_env_response"] = []
        return match.prompt

    async def env_response(self, messages: Any, state: Any, **_: Any) -> list[Message]:
        """Return only the newest request, as a continued chat would show it."""
        return state["match"].prompt[-1:]  # type: ignore[no-any-return]

    async def render_completion(self, state: Any) -> None:
        """Write the match as one chat: each reply, and the request that followed it."""
        chat: list[Any] = []
        for number, step in enumerate(state["trajectory"]):
            chat += [*(step["prompt"][-1:] if number else []), *step["completion"]]
        state["completion"] = chat

    async def match_return(self, state: Any) -> float:
        """Return the seat's return, in the game's units; the least that the game pays if the match broke off."""
        episode: Episode | None = state["match"].episode
        return self._matches.spec.min_return if episode is None else episode.returns[state["info"]["seat"]]


async def illegal_replies(state: Any) -> float:
    """Return how many replies of the model were illegal."""
    episode: Episode | None = state["match"].episode
    turns = () if episode is None else episode.turns
    return float(sum(turn.player == MODEL and turn.action is None and not turn.tool for turn in turns))
