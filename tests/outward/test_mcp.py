"""The official client of the Model Context Protocol plays a match: its result is that of the league's own match."""

import asyncio
import json
import sys

import pytest
from support.matches.seat_outside import own_returns
from support.source import ROOT

from league.cli import main

pytest.importorskip("mcp", reason="mcp is not installed here: make test-outward has it")
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def told(result):
    """Return what a tool answered."""
    return json.loads(result.content[0].text)


async def conversation(talk, against="random"):
    words = ["-m", "league", "serve", against, "--mcp", "--game", "kuhn_poker", "--seed", "7"]
    server = StdioServerParameters(command=sys.executable, args=words, cwd=str(ROOT))
    async with stdio_client(server) as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        return await talk(session)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["always:raise", "--game", "kuhn_poker"], "cannot play kuhn_poker"),
        (["equilibrium", "--game", "chess"], "chess"),
        (["random", "--game", "kuhn_poker", "--engine", "vllm"], "there is no language model among random"),
        (["random", "--game", "kuhn_poker", "--player", "x.toml"], "leave them out with --mcp"),
        (["random", "--game", "lookup_chain"], "open matches of other games"),
    ],
)
def test_what_cannot_be_served_is_said_before_a_client_comes(words, said, capsys):
    assert main(["serve", *words, "--mcp"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_matches_end_as_the_leagues_own_do():
    async def talk(session):
        assert {tool.name for tool in (await session.list_tools()).tools} == {"new_match", "reply"}
        returns = []
        for _ in range(20):
            turn = told(await session.call_tool("new_match", {}))
            while not turn["over"]:
                assert "bet" in turn["legal"]
                turn = told(await session.call_tool("reply", {"text": "[bet]"}))
            returns.append(turn["return"])
        return returns

    expected = own_returns(20, 7, "bet")
    assert asyncio.run(conversation(talk)) == expected
    assert len(set(expected)) > 2


@pytest.mark.slow
def test_a_match_is_begun_again_by_its_number_and_mistakes_are_told():
    async def talk(session):
        early = await session.call_tool("reply", {"text": "[bet]"})
        assert early.isError
        assert "Call new_match" in early.content[0].text
        assert (await session.call_tool("new_match", {"number": -1})).isError
        first, again = [told(await session.call_tool("new_match", {"number": 4})) for _ in range(2)]
        assert first == again
        assert "Kuhn poker" in first["prompt"]
        refused = told(await session.call_tool("reply", {"text": "hm"}))
        assert not refused["over"]
        forfeit = told(await session.call_tool("reply", {"text": "hm"}))
        assert forfeit["over"]
        assert forfeit["illegal_replies"] == 2
        assert forfeit["return"] < 0

    asyncio.run(conversation(talk, "equilibrium"))
