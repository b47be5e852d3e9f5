"""Submatches: observations, rewards and numbers, for any number of matches in flight."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.matches.offices import TOP, make_office, office_request, play_offices

from arena.records import EndReason, Reply, flatten_episodes
from arena.replays import load_episodes, save_episodes
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from learners.trajectories import to_trajectories
from roles.cards import load_roles

quick = settings(deadline=None, max_examples=25)


def secrets_in(text):
    return set(re.findall(r"secret<[^>]*>", text))


@quick
@given(seed=st.integers(0, 2**32), most=st.integers(0, 6))
def test_observations_show_nothing_of_another_match_but_its_outcome(seed, most):
    for member in flatten_episodes(play_offices([office_request(0, seed)], most=most)):
        secret = f"secret<{member.request.game[7]}:{member.request.task}>"
        for turn in member.turns:
            assert secrets_in(" ".join([turn.observation, *turn.legal, turn.reply])) == {secret}


@quick
@given(seed=st.integers(0, 2**32), most=st.integers(0, 6))
def test_an_opener_sees_the_outcomes_of_its_submatches_in_the_order_of_their_opening(seed, most):
    for episode in play_offices([office_request(0, seed)], most=most):
        waiting = [episode]
        while waiting:
            match = waiting.pop()
            waiting += match.children
            path = match.request.task
            assert [child.request.task for child in match.children] == [
                f"{path}.{i}" for i in range(len(match.children))
            ]
            outcomes = re.findall(r"did [\d.]+", match.turns[-1].observation)
            assert outcomes == [f"did {path}.{i}" for i in range(len(outcomes))]
            assert [child.outcome for child in match.children][: len(outcomes)] == outcomes
            assert [child.returns for child in match.children] == [(i + 1.0,) for i in range(len(match.children))]
            assert [[turn.reward for turn in child.turns] for child in match.children] == [
                [0.0, 0.0, i + 1.0] for i in range(len(match.children))
            ]


def test_from_no_submatch_to_six_and_on_two_levels():
    episodes = play_offices([office_request(index) for index in range(200)])
    assert {len(episode.children) for episode in episodes} == set(range(7))
    assert {len(child.children) for episode in episodes for child in episode.children} == set(range(7))
    assert {child.request.game for e in episodes for c in e.children for child in c.children} == {"office(0)"}


@pytest.mark.parametrize("in_flight", [7, 256])
def test_the_number_in_flight_changes_nothing(in_flight):
    requests = [office_request(index) for index in range(60)]
    expected = play_offices(requests, in_flight=1)
    assert [episode.request for episode in expected] == requests
    assert play_offices(requests, in_flight=in_flight) == expected


def test_a_match_that_waits_for_submatches_does_not_count_as_in_flight():
    sizes = []

    class Counting(Random):
        def sample(self, requests):
            sizes.append(len(requests))
            return super().sample(requests)

    play_offices([office_request(index) for index in range(100)], in_flight=8, engine=Counting())
    assert min(sizes[: len(sizes) // 2]) >= 8  # until matches run out, 8 of them request replies
    assert max(sizes) <= 8 + 8 * 2 * 2  # submatches of a round come on top, and no further match starts meanwhile


def test_submatches_are_numbered_on_from_the_greatest_index_each_after_its_opener():
    episodes = play_offices([office_request(index) for index in (5, 40, 7)])
    members = flatten_episodes(episodes)
    numbers = [member.request.index for member in members]
    assert len(set(numbers)) == len(numbers)
    assert [n for n in numbers if n > 40] == list(range(41, 41 + len(members) - 3))
    assert not any(member.children for member in members)
    seen = {}
    for member in members:
        parent = member.request.parent
        if parent is not None:
            assert seen[parent].game == f"office({int(member.request.game[7]) + 1})"
            assert member.request.task.startswith(seen[parent].task)
            assert member.request.deal_seed == seen[parent].deal_seed
        seen[member.request.index] = member.request
    assert flatten_episodes(members) == members
    assert len({member.request.sample_seed for member in members}) == len(members)


def test_trajectories_name_their_parent_and_their_root():
    episodes = play_offices([office_request(index) for index in range(5)])
    roles = {f"office({level})": load_roles(make_office(f"office({level})").spec) for level in range(3)}
    trajectories = to_trajectories(episodes, roles.__getitem__, dict.fromkeys(roles, 1.0))
    assert len(trajectories) == len(flatten_episodes(episodes))
    parents = {trajectory.match: trajectory.parent for trajectory in trajectories}
    for trajectory in trajectories:
        root = trajectory.match
        while parents[root] is not None:
            root = parents[root]
        assert trajectory.root == (None if trajectory.parent is None else root)
        assert trajectory.deal_seed == episodes[root].request.deal_seed
        assert sum(trajectory.rewards) == trajectory.match_return


class Silent:
    """Gives illegal replies as office(1), and legal ones elsewhere."""

    def sample(self, requests):
        return [
            Reply("hm" if request.role.game == "office(1)" else f"[{request.rng.choice(request.legal)}]")
            for request in requests
        ]


def test_a_forfeited_submatch_has_no_outcome_and_its_opener_goes_on():
    episodes = play_offices([office_request(index) for index in range(10)], engine=Silent(), reply="free", price=0.5)
    children = [child for episode in episodes for child in episode.children]
    assert children
    assert all(episode.end is EndReason.FINISHED for episode in episodes)
    for episode in episodes:
        for number, child in enumerate(episode.children, 1):
            assert (child.end, child.outcome, child.children) == (EndReason.FORFEIT, "", ())
            assert child.returns == (number - 0.5,)  # what the parent pays, less the price of the forfeit
            assert child.turns[-1].reward == number - 0.5
        assert "did" not in episode.turns[-1].observation


def test_episodes_with_submatches_are_saved_and_loaded(tmp_path):
    episodes = play_offices([office_request(index, branch=(3, 4)) for index in range(8)])
    save_episodes(tmp_path / "some.jsonl", episodes)
    loaded = load_episodes(tmp_path / "some.jsonl")
    assert loaded == episodes
    assert repr(loaded) == repr(episodes)  # types too


def test_every_root_is_reported_as_it_ends_with_its_submatches():
    seen = []
    episodes = play_offices([office_request(index) for index in range(10)], on_episode=seen.append)
    assert sorted(seen, key=lambda episode: episode.request.index) == episodes


def test_branches_with_equal_first_seeds_play_their_first_turns_equally():
    branches = [(1, 2, 3), (1, 2, 4), (1, 5, 3), (6, 2, 3)]
    requests = [
        office_request(number, deal_seed=9, sample_seed=number, branch=branch) for number, branch in enumerate(branches)
    ]

    def replies(episode):
        return [turn.reply for turn in episode.turns]

    same = []
    for seed in range(30):  # two replies to choose from, this many deals
        a, b, c, _ = play_offices([request._replace(deal_seed=seed) for request in requests], most=3)
        assert replies(a)[:2] == replies(b)[:2]
        assert replies(a)[:1] == replies(c)[:1]
        opened = len([child for child in a.children if child.request.task in a.turns[2].observation])
        assert [child.turns for child in a.children[:opened]] == [child.turns for child in b.children[:opened]]
        same.append(replies(a) == replies(b))
    drawn = [play_offices([office_request(0, sample_seed=s, branch=(s, s + 100, s + 200))])[0].turns for s in range(40)]
    assert len({tuple(turn.reply for turn in turns) for turns in drawn}) == 8  # 2 replies in 3 turns: all are played


def test_a_submatch_without_players_or_methods_is_refused():
    with pytest.raises(UsageError, match=r"office\(2\) opens a submatch of office\(1\), which nobody is cast for"):
        play_offices([office_request(index, cast=()) for index in range(5)])
    closed = office_request(0, game="kuhn_poker", players=("r", "r"), trained=(False, False), parent=3)
    with pytest.raises(UsageError, match="kuhn_poker cannot be a submatch of another match"):
        play(
            [closed],
            roles_of=lambda name: load_roles(make_game(name).spec),
            engine_of=lambda player: Random(),
            make_game=make_game,
            in_flight=1,
        )
    assert TOP == "office(2)"


def test_each_round_asks_the_matches_in_the_order_in_which_they_began():
    """With ids out of order, and matches of unequal lengths, several of which resume in one round."""
    indices = random.Random(3).sample(range(100), 60)
    rounds = []

    class Recording(Random):
        def sample(self, requests):
            rounds.append([request.player for request in requests])
            return super().sample(requests)

    play_offices([office_request(index, player=f"p{index}") for index in indices], engine=Recording())
    assert rounds[0] == [f"p{index}" for index in indices]
    assert len({len(players) for players in rounds}) > 10
    for players in rounds:
        assert players == sorted(players, key=rounds[0].index)
