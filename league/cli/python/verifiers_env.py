"""A game as an environment of verifiers (https://github.com/PrimeIntellect-ai/verifiers): a model has one seat.

A rollout is a match. At each turn the model gets the league's prompt: the role's instructions and the position, and
after an illegal reply the reason. So a match's prompts are not prefixes of one another, and a trainer reads a rollout
turn by turn (``state["trajectory"]``). The reward is the seat's return, in the game's units.
The only importer of verifiers and, for its rows, of datasets.
"""

from __future__ import annotations

from typing import Any

from games.common.errors import UsageError
from league.cli.python.seat_matches import SeatMatch, SeatMatches, seat_matches
from league.population.players.engines import Engines
from roles.chat_text import Message

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


def load_environment(
    game: str = "kuhn_poker",
    against: str = "random",
    matches: int = 1000,
    evaluation_matches: int = 100,
    retries: int = 1,
    seed: int = 0,
) -> MatchEnv:
    """Return the environment of a game whose other seats are played by ``against``, a player as on the command line.

    A row is a match: a deal, and the model's seat, which takes every seat in turn. An illegal reply may be retried
    ``retries`` times before the seat forfeits. Rows for evaluation use other deals. Raises UsageError for a game or
    player that does not exist, and for a game whose matches open others.
    """
    matchmaker = seat_matches(game, against, Engines(), retries=retries, seed=seed, rule="verifiers")
    train, evaluation = _rows(matchmaker, 0, matches), _rows(matchmaker, matches, evaluation_matches)
    return MatchEnv(matchmaker, dataset=Dataset.from_list(train), eval_dataset=Dataset.from_list(evaluation))


def _rows(matches: SeatMatches, first: int, number: int) -> list[dict[str, Any]]:
    """Return matches as rows, without those that end before the model has a turn."""
    rows = []
    for index in range(first, first + number):
        if prompt := matches.begin(index).prompt:
            info = {"match": index, "game": matches.spec.name, "seat": index % matches.spec.seats}
            rows.append({"prompt": prompt, "answer": "", "info": info})
    return rows


class MatchEnv(vf.MultiTurnEnv):  # type: ignore[misc]  # verifiers is untyped here
    """One seat of a game, the others played by an opponent. The match is in ``state["match"]``."""

    def __init__(self, matches: SeatMatches, **settings: Any) -> None:
        self._matches = matches
        rubric = vf.Rubric(funcs=[self.match_return, illegal_replies], weights=[1.0, 0.0])
        super().__init__(rubric=rubric, **settings)

    async def setup_state(self, state: Any) -> Any:
        """Begin the match of a row."""
        state["match"] = self._matches.begin(state["info"]["match"])
        return state

    async def get_prompt_messages(self, state: Any) -> list[Message]:
        """Play the model's last reply, and return its next prompt."""
        match: SeatMatch = state["match"]
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
        """Return the seat's return, in the game's units; the least that the game pays if the match was interrupted."""
        match: SeatMatch = state["match"]
        return self._matches.spec.min_return if match.seat_return is None else match.seat_return


async def illegal_replies(state: Any) -> float:
    """Return how many replies of the model were illegal."""
    match: SeatMatch = state["match"]
    return float(match.illegal_replies)
