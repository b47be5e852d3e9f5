"""verifiers' own rollouts play matches: the prompts, the rewards and the forfeits are the league's."""

import asyncio

import pytest
from support.processes.server import Server, completion

import league
from arena.records import MatchRequest
from arena.scheduler import play
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from league.population.players.scripted import scripted_player

vf = pytest.importorskip("verifiers", reason="verifiers is not installed here: make test-outward has it")
openai = pytest.importorskip("openai")


def rollouts(environment, url, number):
    """Let verifiers play the first rows against a server; return its outputs in the order of the rows."""

    async def generate():
        client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
        inputs = environment.get_dataset(n=number)
        outputs = await environment.generate(inputs, client, "pocket", state_columns=["trajectory"])
        await client.close()
        return sorted(outputs["outputs"], key=lambda output: output["example_id"])

    return asyncio.run(generate())


@pytest.fixture(scope="module")
def environment():
    return vf.load_environment("league", game="kuhn_poker", against="random", matches=40, seed=7, retries=1)


def test_rewards_are_the_returns_of_the_leagues_own_matches(environment):
    with Server(lambda number, body: completion("I am sure. [bet]")) as server:
        outputs = rollouts(environment, server.url, 40)
    players = {"model": scripted_player("always:bet"), "random": scripted_player("random")}
    requests = [
        MatchRequest(
            number,
            "kuhn_poker",
            derive_seed(7, "deal", "kuhn_poker", number // 2),
            derive_seed(7, "sample", "kuhn_poker", number),
            ("model", "random")[:: (-1) ** number],
            (False, False),
        )
        for number in range(40)
    ]
    roles = league.load_config("pocket-returns")
    from league.config.load import run_roles

    episodes = play(requests, roles_of=run_roles(roles).__getitem__, engine_of=players.__getitem__, make_game=make_game)
    expected = [episode.returns[number % 2] for number, episode in enumerate(episodes)]
    assert [output["reward"] for output in outputs] == expected
    assert len(set(expected)) > 2
    assert all(output["metrics"]["illegal_replies"] == 0.0 for output in outputs)


def test_each_turn_is_asked_as_the_league_asks_it(environment):
    with Server(lambda number, body: completion("[pass]")) as server:
        outputs = rollouts(environment, server.url, 12)
        asked = [request.body["messages"] for request in server.seen]
    twice = [output for output in outputs if len(output["trajectory"]) == 2]
    assert twice  # pass, bet, pass
    for output in twice:
        first, second = (step["prompt"] for step in output["trajectory"])
        assert [message["role"] for message in first] == [message["role"] for message in second] == ["system", "user"]
        assert "bet" in second[1]["content"]
        assert first in asked
        assert second in asked
        assert output["completion"] == [
            {"role": "assistant", "content": "[pass]"},
            second[1],
            {"role": "assistant", "content": "[pass]"},
        ]


def test_an_illegal_reply_is_answered_once_and_then_forfeits(environment):
    with Server(lambda number, body: completion("raise!")) as server:
        outputs = rollouts(environment, server.url, 6)
    for output in outputs:
        assert output["reward"] == make_game("kuhn_poker").spec.min_return
        assert output["metrics"]["illegal_replies"] == 2.0
        roles = [message["role"] for message in output["trajectory"][1]["prompt"]]
        assert roles == ["system", "user", "assistant", "user"]


def test_rows_are_the_same_again_and_evaluation_has_other_matches(environment):
    again = league.load_environment(game="kuhn_poker", against="random", matches=40, seed=7)
    assert again.get_dataset()["prompt"] == environment.get_dataset()["prompt"]
    numbers = [{info["match"] for info in rows["info"]} for rows in (again.get_dataset(), again.get_eval_dataset())]
    assert not numbers[0] & numbers[1]


def test_a_game_of_words_is_played_too():
    environment = league.load_environment(game="simple_negotiation", against="random", matches=2, evaluation_matches=2)
    assert environment.get_dataset()["prompt"][0][0]["role"] == "system"


@pytest.mark.parametrize(("game", "sentence"), [("kuhn_pokr", "Did you mean"), ("lookup_chain", "open matches")])
def test_what_cannot_be_an_environment_is_refused(game, sentence):
    with pytest.raises(UsageError, match=sentence):
        league.load_environment(game=game)
