"""Which matches of an iteration are kept to be read, and that what is said of them is what training computed."""

import json

import pytest
from support.matches.made_up import episode

from arena.records import EndReason, Episode, MatchRequest, TokenTrace, Turn
from arena.replays import load_episodes, save_episodes
from games.common.errors import UsageError
from league.population.storage.sampled_matches import load_samples, sample_files, sample_matches, save_samples
from learners.trajectories import Trajectory

MIRROR, GUEST = ("main", "main"), ("main", "random")


def against(index, gain):
    """Return a match of which only the first seat is trained."""
    played = episode(index, GUEST, (gain, -gain))
    return played._replace(request=played.request._replace(trained=(True, False)))


def credited(match, advantage, seat=0, game="toy"):
    """Return a trajectory of one turn and its advantage."""
    turns = tuple(turn for turn in match.turns if turn.seat == seat)
    trajectory = Trajectory(game, f"r{seat}", "main", seat, match.request.index, 0, GUEST, turns, (0.0,), 0.0)
    return trajectory, [advantage] * len(turns)


def kept(episodes, per_game=4, credit_of=()):
    trajectories, advantages = [one for one, _ in credit_of], [numbers for _, numbers in credit_of]
    samples = sample_matches(episodes, trajectories, advantages, 10, per_game)
    return {sample.episode.request.index: sample.kept_as for sample in samples}


def test_first_best_worst_and_most_surprising_are_kept():
    matches = [against(index, gain) for index, gain in enumerate((0.0, 1.0, 2.0, -3.0, 1.0, 0.0))]
    credit_of = [credited(match, advantage) for match, advantage in zip(matches, (0, 1, 1, -1, -4.5, 2), strict=True)]
    assert kept(matches, 4, credit_of) == {0: ("first",), 2: ("best",), 3: ("worst",), 4: ("most surprising",)}


def test_others_fill_up_and_the_first_reasons_come_first():
    matches = [against(index, gain) for index, gain in enumerate((0.0, 1.0, 2.0, -3.0))]
    assert kept(matches, 2) == {0: ("first",), 2: ("best",)}
    assert kept(matches, 0) == {}
    assert kept(matches, 9) == {0: ("first",), 1: ("random",), 2: ("best",), 3: ("worst",)}


def test_a_win_over_another_is_better_than_one_over_itself():
    matches = [episode(0, MIRROR, (2.0, -2.0)), against(1, -2.0), against(2, 2.0)]
    assert kept(matches) == {0: ("first",), 1: ("worst",), 2: ("best",)}


def test_the_worst_match_has_the_least_return_of_any_trained_seat():
    """It may be the best as well, where what one seat wins the other does not lose."""
    matches = [episode(0, MIRROR, (0.0, 0.0)), episode(1, MIRROR, (3.0, -5.0)), episode(2, MIRROR, (-1.0, -1.0))]
    assert kept(matches) == {0: ("first",), 1: ("best", "worst"), 2: ("random",)}


def test_the_refused_the_stale_and_the_longest_are_kept_where_there_are_such():
    """Two updates behind is staler than one, and a policy that nobody played with newer weights is not stale."""
    trace = TokenTrace("main", (1,), (2,), (-0.5,), None)
    matches = [against(index, 0.0) for index in range(7)]

    def with_turns(match, *turns):
        return match._replace(turns=tuple(match.turns[0]._replace(**turn) for turn in turns))

    matches[2] = with_turns(matches[2], {"trace": trace._replace(version=3)})
    matches[3] = with_turns(matches[3], {"trace": trace._replace(version=1)})
    matches[4] = with_turns(matches[4], {"trace": trace._replace(version=5), "player": "guest"}, {}, {}, {})
    matches[5] = with_turns(matches[5], {"action": None})
    reasons = kept(matches, 8)
    assert reasons[5] == ("most refused",)
    assert reasons[3] == ("most stale",)
    assert reasons[4] == ("longest",)
    assert sum(each == ("random",) for each in reasons.values()) == 1


def test_one_at_random_does_not_depend_on_the_order_and_needs_a_place():
    matches = [against(index, 0.0) for index in range(9)]
    seeded = [m._replace(request=m.request._replace(sample_seed=(7 * m.request.index + 3) % 9)) for m in matches]
    assert [index for index, why in kept(seeded, 4).items() if "random" in why] == [6]
    assert "random" not in {name for why in kept(seeded, 1).values() for name in why}


def test_games_have_their_own_samples():
    matches = [episode(index, MIRROR, (0.0, 0.0), game=game) for index, game in enumerate("abab")]
    assert kept(matches, per_game=1) == {0: ("first", "best", "worst"), 1: ("first", "best", "worst")}


def test_matches_and_advantages_come_back_equal(tmp_path):
    matches = [against(0, 1.0), episode(1, MIRROR, (1.0, -1.0))]
    credit_of = [credited(matches[0], 0.1), credited(matches[1], -0.7), credited(matches[1], 0.7, seat=1)]
    samples = sample_matches(matches, *zip(*credit_of, strict=True), 10, 4)
    assert [sample.advantages for sample in samples] == [((0.1, None),), ((-0.7, 0.7),)]
    save_samples(tmp_path, 10, samples)
    [path] = sample_files(tmp_path)
    assert load_samples(path) == samples
    assert load_episodes(path) == matches


def test_a_submatch_has_the_advantages_of_its_own_turns():
    """Submatches are numbered within the iteration, behind its last match, and not within their own."""

    def match(index, children=()):
        turn = Turn(0, "r0", "main", "", ("a",), "a", "a", 1.0, None)
        request = MatchRequest(index, "toy", 0, 0, ("main",), (True,))
        return Episode(request, (turn,), (1.0,), EndReason.FINISHED, children=children)

    matches = [match(0, (match(0), match(1))), match(1, (match(0),))]
    numbers = {0: 0.0, 2: 0.2, 3: 0.3, 1: 0.1, 4: 0.4}  # by match in the iteration
    credit_of = [credited(match(index), number) for index, number in numbers.items()]
    samples = sample_matches(matches, *zip(*credit_of, strict=True), 1, 4)
    assert [sample.advantages for sample in samples] == [((0.0,), (0.2,), (0.3,)), ((0.1,), (0.4,))]


def test_a_plain_file_of_episodes_has_no_advantages(tmp_path):
    save_episodes(tmp_path / "matches.jsonl", [against(0, 1.0)])
    [sample] = load_samples(tmp_path / "matches.jsonl")
    assert (sample.iteration, sample.kept_as, sample.advantages) == (None, (), ((None, None),))


@pytest.mark.parametrize("damage", ["", "{", '{"iteration": 1, "matches": []}', '{"iteration": 1, "matches": [3]}'])
def test_credit_that_does_not_go_with_its_matches_is_refused(tmp_path, damage):
    save_samples(tmp_path, 1, sample_matches([against(0, 1.0)], [], [], 1, 1))
    (tmp_path / "episodes/iteration-000001.credit.json").write_text(damage)
    with pytest.raises(UsageError, match=r"credit\.json does not belong to"):
        load_samples(sample_files(tmp_path)[0])


def test_credit_of_another_match_is_refused(tmp_path):
    save_samples(tmp_path, 1, sample_matches([against(0, 1.0)], [], [], 1, 1))
    path = tmp_path / "episodes/iteration-000001.credit.json"
    note = json.loads(path.read_text())
    note["matches"][0]["advantages"] = [[1.0]]
    path.write_text(json.dumps(note))
    with pytest.raises(UsageError, match="other numbers of turns"):
        load_samples(sample_files(tmp_path)[0])


def test_a_flipped_bit_in_kept_matches_is_found(tmp_path):
    """In a return, so that the line is still an episode."""
    match = against(0, 1.0)
    samples = sample_matches([match], *zip(credited(match, 0.1), strict=True), 3, 4)
    save_samples(tmp_path, 3, samples)
    (path,) = sample_files(tmp_path)
    assert load_samples(path) == samples
    credit, text = path.with_suffix(".credit.json"), path.read_text()
    path.write_text(text.replace("-1.0", "-5.0"))
    with pytest.raises(UsageError, match="has changed since it was written"):
        load_samples(path)
    path.write_text(text)
    assert "0.1" in credit.read_text()
    credit.write_text(credit.read_text().replace("0.1", "0.5"))
    with pytest.raises(UsageError, match="its advantages have changed since they were written"):
        load_samples(path)
