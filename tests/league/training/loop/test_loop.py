"""The loop's verbs by themselves: which games are due, and indices that no two matches of a run share."""

from pathlib import Path
from types import SimpleNamespace

from support.matches.offices import office_request, play_offices

from arena.records import flatten_episodes
from league.config import RunConfig
from league.config.context import run_context
from league.population.results.payoffs import PayoffTable
from league.population.storage.members import JudgedGames
from league.training.loop.loop import League

CONFIG = RunConfig(games={"kuhn_poker": {"matches": 8}, "tiny_hanabi": {"matches": 6, "every": 3}})


def drawing_league():
    return SimpleNamespace(
        config=CONFIG,
        context=run_context(CONFIG, Path()),
        state=SimpleNamespace(
            policies={"main": None},
            meta={},
            payoffs=PayoffTable(["main"]),
            next_match=100,
            starts=None,
            judged=JudgedGames(),
        ),
        _snapshots=SimpleNamespace(members=list),
    )


def test_a_game_is_due_in_the_first_iteration_and_then_every_so_many():
    league, drawn = drawing_league(), {}
    for iteration in range(1, 8):
        drawn[iteration] = League.draw_matches.__wrapped__(league, iteration)
    due = [iteration for iteration, requests in drawn.items() if any(r.game == "tiny_hanabi" for r in requests)]
    assert due == [1, 4, 7]
    assert {iteration: len(requests) for iteration, requests in drawn.items()} == {
        iteration: 14 if iteration in due else 8 for iteration in range(1, 8)
    }
    indices = [request.index for requests in drawn.values() for request in requests]
    assert indices == list(range(100, 100 + 3 * 6 + 7 * 8))
    assert league.state.next_match == 100 + 3 * 6 + 7 * 8
    assert len({request.deal_seed for requests in drawn.values() for request in requests}) == len(indices)


def test_no_later_match_has_the_index_of_a_submatch():
    """``flatten_episodes`` numbers submatches on from the greatest index of their batch."""
    numbered = []
    league = SimpleNamespace(
        state=SimpleNamespace(next_match=0),
        context=SimpleNamespace(specs={}, roles={}),
        _engine=SimpleNamespace(refresh=lambda: None),
        rollouts=SimpleNamespace(play=play_offices),
        _with_casts=lambda requests: requests,
    )
    for _ in range(3):
        requests = [office_request(league.state.next_match + number) for number in range(5)]
        league.state.next_match += len(requests)
        episodes = League.play.__wrapped__(league, requests)
        numbered += [episode.request.index for episode in flatten_episodes(episodes)]
    assert len(numbered) > 15
    assert sorted(numbered) == list(range(len(numbered))), "each once, none left out"
