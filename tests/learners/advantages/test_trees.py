"""Trees of replies from the draw to the credit: whole, of one deal, played alike as far as they are one, and quick."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learning.trajectories import credit
from support.matches.draws import draw, spec
from support.models.pocket import pocket
from support.timing import processor_seconds

from arena.records import Episode, MatchRequest
from arena.samplers.scripted import Random
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from league.config.load import load
from league.config.matchmaking import MatchmakingConfig
from learners.advantages.trees import sibling_pairs
from learners.trajectories import Trajectory, to_trajectories
from roles.cards import load_roles

RELAY = make_game("relay_arithmetic").spec
TREE = MatchmakingConfig(self_play=1.0, fictitious=0.0, tree=4)


def trees_of(matches: list[MatchRequest]) -> list[list[MatchRequest]]:
    """Return matches by what all matches of a tree have in common."""
    trees: defaultdict[object, list[MatchRequest]] = defaultdict(list)
    for match in matches:
        trees[match.deal_seed, match.players, match.trained].append(match)
    return list(trees.values())


def shared(branch: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return how many leading entries of two branches are equal."""
    return next((k for k, (a, b) in enumerate(zip(branch, other, strict=True)) if a != b), len(branch))


@given(
    tree=st.integers(2, 4),
    starts=st.integers(1, 4),
    seats=st.integers(1, 3),
    first=st.integers(0, 10**6),
    seed=st.integers(0, 99),
)
def test_every_start_is_one_whole_tree(tree: int, starts: int, seats: int, first: int, seed: int) -> None:
    """A turn has ``tree`` children; n ** (T - k) leaves share the first k turns; no node's seed is another's."""
    turns, config = spec(seats).max_turns, MatchmakingConfig(self_play=1.0, fictitious=0.0, tree=tree)
    matches = draw(
        past=0, live=("main",) * seats, config=config, matches=starts * tree**turns, first_index=first, run_seed=seed
    )
    groups = trees_of(matches)
    assert {len(group) for group in groups} == {tree**turns}
    assert len(groups) == starts
    nodes: defaultdict[int, set[object]] = defaultdict(set)  # the places that a seed stands at
    for number, group in enumerate(groups):
        for match in group:
            assert len(match.branch) == turns
            for depth, seed_of_turn in enumerate(match.branch):
                nodes[seed_of_turn].add((number, match.branch[:depth]))
        for depth in range(1, turns + 1):
            beginnings = [match.branch[:depth] for match in group]
            assert len(set(beginnings)) == tree**depth
            assert all(beginnings.count(beginning) == tree ** (turns - depth) for beginning in set(beginnings))
    assert all(len(positions) == 1 for positions in nodes.values())
    assert len(nodes) == starts * sum(tree**depth for depth in range(1, turns + 1))


def test_past_opponents_are_met_in_whole_trees_too_and_every_iteration_in_others() -> None:
    config = MatchmakingConfig(self_play=0.5, fictitious=0.5, tree=2)
    matches = draw(
        config=config, matches=32 * 2**3, game=RELAY, live=("a", "b", "c"), past={p: [f"{p}-0"] for p in "abc"}
    )
    groups = trees_of(matches)
    assert {len(group) for group in groups} == {2**3}
    assert {match.rule for match in matches} == {"self_play", "fictitious"}
    assert all(len({match.branch for match in group}) == 2**3 for group in groups)
    later = draw(config=config, matches=2**3, game=RELAY, live=("a", "b", "c"), past=0, first_index=5000)
    assert not {s for match in matches for s in match.branch} & {s for match in later for s in match.branch}


def test_without_a_tree_no_match_has_a_branch() -> None:
    assert {match.branch for match in draw(config=MatchmakingConfig(group_size=4))} == {()}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["matchmaking.tree=1"], "matchmaking.tree = 1: it should be greater than or equal to 2"),
        (["matchmaking.tree=2", "matchmaking.group_size=8"], "leave matchmaking.group_size at 1"),
        (["matchmaking.tree=3"], "trees of 3 replies to the power of 3 turns: 27 matches. Set 54 or 81"),
        (["matchmaking.tree=5"], "trees of 5 replies to the power of 3 turns: 125 matches. Set 125."),
        (["credit.rule=malt"], "needs whole trees of matches. Set matchmaking.tree to 2 or more"),
    ],
)
def test_trees_that_could_not_be_played_are_refused(overrides: list[str], said: str, tmp_path) -> None:
    path = tmp_path / "trees.toml"
    path.write_text("games.relay_arithmetic.matches = 64\n")
    with pytest.raises(UsageError) as refused:
        load(str(path), overrides)
    assert said in str(refused.value)


@cache
def real_batch(starts: int, tree: int = 4) -> tuple[list[Episode], list[Trajectory]]:
    """Return matches that a small model plays in all seats of relays, and their trajectories; returns span 2."""
    config = TREE.model_copy(update={"tree": tree})
    matches = draw(past=0, live=("main",) * 3, game=RELAY, config=config, matches=starts * tree**3, first_index=0)
    roles, lm = load_roles(RELAY), pocket(texts=("Sum: 1 + ? right, 2 too big, 0 too small", "3 4"))
    engine = TorchLM()
    engine.add("main", lm)
    episodes = play(
        matches, roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game, in_flight=len(matches)
    )
    return episodes, to_trajectories(episodes, lambda _: roles, {"relay_arithmetic": 0.5})


def test_a_real_batch_is_credited_with_what_its_matches_came_to() -> None:
    """Matches that are one so far have said the same so far; values are plain means over the matches below a node."""
    episodes, batch = real_batch(4)
    for episode, other in combinations(episodes[:64], 2):  # the first tree
        alike = shared(episode.request.branch, other.request.branch)
        assert [turn.reply for turn in episode.turns[:alike]] == [turn.reply for turn in other.turns[:alike]]
    means = {}
    for depth in range(4):
        below: defaultdict[object, list[float]] = defaultdict(list)
        for episode in episodes:
            below[episode.request.deal_seed, episode.request.branch[:depth]].append(episode.returns[0] / 0.5)
        means |= {key: sum(returns_M) / len(returns_M) for key, returns_M in below.items()}
    advantages, *_ = credit("malt", batch)
    for t, (advantage,) in zip(batch, advantages, strict=True):
        value = means[t.deal_seed, t.branch[: t.seat + 1]]
        assert advantage == pytest.approx(value - means[t.deal_seed, t.branch[: t.seat]], abs=1e-12)
    assert len({round(advantage, 6) for (advantage,) in advantages}) > 10, "it is no trivial batch"


def test_pairs_of_a_real_batch_were_asked_the_same_and_said_something_else() -> None:
    _, batch = real_batch(16)
    pairs = sibling_pairs(batch, {"relay_arithmetic": 1.0})
    assert {batch[chosen].role for chosen, _ in pairs} >= {"verifier", "refiner"}
    for chosen, rejected in pairs:
        (good,), (bad,) = batch[chosen].turns, batch[rejected].turns
        assert (good.observation, good.trace.prompt_ids) == (bad.observation, bad.trace.prompt_ids)
        assert good.reply != bad.reply
    last = [(batch[c].match_return, batch[r].match_return) for c, r in pairs if batch[c].role == "refiner"]
    assert set(last) == {(2.0, 0.0)}


@pytest.mark.timed
def test_ten_thousand_trajectories_take_under_a_tenth_of_a_second() -> None:
    """Random players, 8 trees of 8 replies. Processor time, once in several runs: other work must not count.

    With the machine to itself 30 ms, weights included; grpo takes 12 ms, mars 25.
    """
    config = TREE.model_copy(update={"tree": 8})
    matches = draw(past=0, live=("main",) * 3, game=RELAY, config=config, matches=8 * 8**3, first_index=0)
    roles, engine = load_roles(RELAY), Random()
    episodes = play(matches, roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game, in_flight=512)
    batch = to_trajectories(episodes, lambda _: roles, {"relay_arithmetic": 0.5})
    assert len(batch) == 8 * 8**3 * 3
    assert processor_seconds(lambda: credit("malt", batch), repeats=40) < 0.1
