"""What writing a task pays, in closed form; games of authors; planted bugs and challenges that cheat are refused."""

import itertools
import random
from collections import Counter
from fractions import Fraction
from math import comb

import pytest

from arena.records import Cast, MatchRequest, flatten_episodes
from arena.samplers.scripted import Random, Script
from arena.scheduler import play
from arena.submatches import attempt_of
from games.common.errors import UsageError
from games.conformance import faults
from games.registry import make_game
from games.spec import Attempt
from games.tasks.admission import Refused
from games.tasks.bugs import admit_repair_task, changed_words, deal_bug, deal_right_program
from games.tasks.challenges import admit_challenge, deal_challenge
from games.tasks.held_out_bugs import HELD_OUT
from games.tasks.proposers.rewards import (
    INVALID,
    SHAPES,
    agent0,
    agent0_agreed,
    agreeing,
    filtered,
    low_not_zero,
    repetition,
    similarity,
)
from learners.trajectories import to_trajectories
from roles.cards import load_roles

AUTHORS = {
    "propose_sums": "sums",
    "propose_sums(digits=3,base=4,form=1,tasks=2)": "sums(digits=3,base=4)",
    "propose_programs": "programs",
    "propose_programs(form=1)": "programs(form=1)",
    "inject_repair": "repair",
    "inject_repair(form=1)": "repair(form=1)",
    "challenge": "find_number",
}


def test_the_shapes_in_closed_form():
    """Agent0: 1 - 2|p - 1/2|; self-play SWE-RL with alpha 0.8: 1 - 1.8 p, and -0.8 at both ends; invalid is worst."""
    eighths = [Fraction(k, 8) for k in range(9)]
    assert [agent0(float(p), 0.0, 0.0) for p in eighths] == [0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0]
    assert [agent0(0.5, share, 9.0) for share in (0.25, 0.75, 1.0)] == [0.75, 0.25, 0.0]
    assert [low_not_zero(float(p), 0.0, 9.0) for p in eighths] == pytest.approx(
        [-0.8, *(float(1 - Fraction(9, 5) * p) for p in eighths[1:8]), -0.8]
    )
    assert {filtered(float(p), 1.0, 0.0) for p in eighths} == {1.0}
    assert all(shape(float(p), 1.0, 0.0) > INVALID for shape in SHAPES for p in eighths)


def test_expected_rewards_of_a_solver_with_a_known_rate():
    """K = 8 attempts at p = 1/2: E|k - 4| = 8 C(8, 4) / 2^9 = 35/32, so Agent0's is 1 - 2 (35/32) / 8 = 1 - 35/128.

    The other's is 1 - 1.8 / 2, less 1.8 / 256: where all fail it is -0.8 in place of 1.
    """
    chances = [comb(8, k) / 256 for k in range(9)]
    mean = {shape: sum(c * shape(k / 8, 0.0, 0.0) for k, c in enumerate(chances)) for shape in (agent0, low_not_zero)}
    assert mean[agent0] == pytest.approx(1 - 35 / 128)
    assert mean[low_not_zero] == pytest.approx(1 - 0.9 - 1.8 / 256)


def test_agreement_in_closed_form():
    """Four attempts with answers a, b at 1/2 each: 2 of 4 agree with 6/16, 3 with 8/16, 4 with 2/16, so E p is 11/16.

    The author gets 1, 1/2 and 0 for these. The band takes 2 and 3 of 4; with 4 nobody is paid, not even who is right.
    """
    chances = {2: 6 / 16, 3: 8 / 16, 4: 2 / 16}
    share, paid, of_author = 0.0, 0.0, 0.0
    for answers in itertools.product("ab", repeat=4):
        game = make_game("propose_sums(digits=1,base=3,tasks=1,attempts=4,reward=3)")
        game.reset(0)
        game.apply("1 + 1")
        right = [answer == "a" for answer in answers]  # which nobody needs to know
        game.record_attempts([Attempt(str(int(own)), answer) for own, answer in zip(right, answers, strict=True)])
        agree = agreeing(answers)
        returns = [own + amends for own, (amends,) in zip(right, game.submatch_returns(), strict=True)]
        assert returns == [float(one and sum(agree) < 4) for one in agree]
        assert f"{sum(agree)} of 4 agree" in game.observe(0)
        share, paid, of_author = share + sum(agree) / 64, paid + sum(returns) / 16, of_author + game.returns()[0] / 16
    assert share == pytest.approx(sum(count / 4 * chance for count, chance in chances.items())) == 11 / 16
    assert paid == pytest.approx(2 * chances[2] + 3 * chances[3])
    assert of_author == pytest.approx(chances[2] + chances[3] / 2)


def test_agreement_by_hand():
    assert agreeing(["7", "", "9", "9", ""]) == (False, False, True, True, False)
    assert agreeing(["9", "7", "7", "9"]) == (True, False, False, True)  # of two the first
    assert agreeing(["", ""]) == (False, False)
    assert [agent0_agreed(0.5, 0.25, calls) for calls in (0.0, 1.5, 4.0, 9.0)] == pytest.approx(
        [0.75, 0.795, 0.87, 0.87]
    )
    assert agent0_agreed(0.125, 0.0, 2.0) == pytest.approx(0.25 + 0.06)
    assert agent0_agreed(1.0, 0.25, 1.0) == 0.0


def test_calls_of_tools_pay_the_author_and_its_return_has_room_for_them():
    game = make_game("propose_sums(tasks=1,attempts=2,reward=3)")
    assert game.spec.max_return == pytest.approx(1.12)
    game.reset(0)
    game.apply("1 + 1")
    game.record_attempts([Attempt("1", "02", 1), Attempt("0", "01", 4)])
    assert game.returns() == pytest.approx((1.0 + 0.03 * 2.5,))


def test_repetition_and_similarity_by_hand():
    assert similarity("abcd", "abcd") == 1.0
    assert similarity("abc", "abd") == 0.5  # one pair of two each
    assert similarity("abc", "xyz") == 0.0
    assert repetition("12 + 34", ["12 + 34", "99 + 87"], 4) == 0.25


@pytest.mark.parametrize("name", AUTHORS)
def test_games_of_authors_keep_their_promises(name):
    assert faults(lambda: make_game(name), seeds=range(2), outward=False) == []
    assert make_game(name).spec.submatch_games == (AUTHORS[name],)


@pytest.mark.parametrize("name", ["repair", "repair(form=1)", "repair(form=1,held_out=1)", "find_number"])
def test_solvers_games_keep_their_promises(name):
    assert faults(lambda: make_game(name), seeds=range(2), outward=False) == []
    for seed in range(12):
        for script, pays in (("optimal", 1.0), ("poor", 0.0)):
            game, rng = make_game(name), random.Random(seed)
            game.reset(seed)
            while game.to_act() is not None:
                game.apply(game.scripts()[script](rng))
            assert game.returns() == (pays,)


def matches(name, author, solver, count=4):
    """Return matches of an author and solvers, both scripts; a solver "random" chooses from lists."""
    spec = make_game(name).spec
    [solved] = spec.submatch_games
    roles = {game: load_roles(make_game(game).spec) for game in (name, solved)}
    engines = {"author": Script(author), "solver": Random() if solver == "random" else Script(solver)}
    cast = (Cast(solved, ("solver",), (True,)),)
    requests = [MatchRequest(n, name, n, n, ("author",), (True,), cast=cast) for n in range(count)]
    assert spec.seats == 1
    episodes = play(requests, roles_of=roles.__getitem__, engine_of=engines.__getitem__, make_game=make_game)
    return episodes, roles


@pytest.mark.parametrize("name", AUTHORS)
def test_children_are_k_attempts_and_pay_the_author_by_their_rate(name):
    """Scripted solvers solve all or nothing: Agent0 pays 0 for both, self-play SWE-RL -0.8, invalid tasks -1."""
    worst = -0.8 if name.startswith("inject") else 0.0
    sums = name.startswith("propose_sums")  # of which a poor solver adds nothing and nothing
    for solver, pays in (("optimal", 1.0),) if sums else (("optimal", 1.0), ("poor", 0.0)):
        episodes, roles = matches(name, "good", solver)
        for episode in episodes:
            tasks = make_game(name)._size.tasks
            admitted = len(episode.children) // 8
            assert len(episode.children) % 8 == 0
            assert {child.returns for child in episode.children} <= {(pays,)}
            assert episode.returns[0] == pytest.approx((worst * admitted - (tasks - admitted)) / tasks)
            assert sum(turn.reward for turn in episode.turns) == pytest.approx(episode.returns[0])
        scales = dict.fromkeys(roles, 1.0)
        groups = {}
        for trajectory in to_trajectories(episodes, roles.__getitem__, scales):
            if trajectory.parent is not None:
                groups.setdefault(trajectory.deal_seed, []).append(trajectory)
        assert groups
        assert {len(group) for group in groups.values()} == {8}


def test_texts_of_slots_are_no_calls_and_no_answer():
    [episode], _ = matches("propose_sums(digits=2,base=2,tasks=1,attempts=5,reward=3)", "good", "random", 1)
    attempt = episode.children[0]
    told, asked = (attempt.turns[0]._replace(tool=tool, action=tool) for tool in ("plan", "add"))
    answer = " ".join(turn.action for turn in attempt.turns)
    assert attempt_of(attempt) == Attempt(attempt.outcome, answer, 0)
    assert attempt_of(attempt._replace(turns=(told, asked, *attempt.turns))) == Attempt(attempt.outcome, answer, 1)
    assert attempt_of(attempt._replace(outcome="")) == Attempt("", "", 0)


def test_attempts_without_an_answer_key_are_paid_for_what_most_of_them_said():
    name = "propose_sums(digits=2,base=2,tasks=2,attempts=5,reward=3)"
    assert faults(lambda: make_game(name), seeds=range(2), outward=False) == []
    episodes, _ = matches(name, "good", "random", 40)
    shares = Counter()
    for episode in episodes:
        for task in {child.request.task for child in episode.children}:
            attempts = [child for child in episode.children if child.request.task == task]
            answers = [" ".join(turn.action for turn in child.turns) for child in attempts]
            agree = agreeing(answers)
            shares[sum(agree)] += 1
            trains = abs(sum(agree) / 5 - 0.5) <= 0.25
            assert [child.returns[0] for child in attempts] == [float(trains and one) for one in agree]
            assert all(sum(turn.reward for turn in child.turns) == child.returns[0] for child in attempts)
    assert len(shares) > 2


@pytest.mark.parametrize("name", AUTHORS)
def test_a_poor_author_is_paid_the_worst_and_opens_nothing(name):
    episodes, _ = matches(name, "poor", "optimal", 1)
    game = make_game(name)
    first = 1 if name.startswith("propose_sums") else 0  # one sum is a task; the same again is none
    assert len(flatten_episodes(episodes)) == 1 + 8 * first
    assert episodes[0].returns[0] == pytest.approx((first - game._size.tasks) / game._size.tasks)


@pytest.mark.parametrize("name", ["propose_sums(reward=4)", "inject_repair(form=2)", "challenge(attempts=65)"])
def test_sizes_that_no_author_has_are_refused(name):
    with pytest.raises(UsageError, match="There is no game"):
        make_game(name)


def test_held_out_bugs_are_tasks_that_a_list_can_mend_and_training_never_deals():
    assert len(set(HELD_OUT)) == 24
    programs = set()
    for text in HELD_OUT:
        task = admit_repair_task(text)
        assert task.text() == text
        assert changed_words(task.bug, task.right.solution) == 1
        programs.add(task.right.solution)
        game = make_game("repair(form=1)")
        game.start_task(text)
        while game.to_act() is not None:
            game.apply(game.scripts()["optimal"](random.Random(0)))
        assert game.returns() == (1.0,)
    dealt = {deal_right_program(seed, 4, 4).solution for seed in range(60)}
    assert not dealt & programs
    assert all(changed_words(bug.bug, bug.right.solution) == 1 for bug in (deal_bug(s, 4, 4) for s in range(10)))


TESTS = "1 -> 2 ; 5 -> 10 ; -3 -> -6"
BUGS = {
    f"{TESTS} | dup + | dup +": "not another",
    f"{TESTS} | 2 * | dup +": "no test shows",
    f"{TESTS} | dup + dup drop | dup +": "no test shows",
    f"{TESTS} | 3 1 + 2 swap drop | dup +": "not another in 1 to 2 words",
    f"{TESTS} | 1000000000 times end dup + | dup +": "not another|bomb",
    f"{TESTS} | 999 times dup end + | 999 times end dup +": "steps|bomb|more than",
    "1 -> 1 ; 5 -> 25 ; -3 -> 9 | 99 times dup * end | dup *": "not another|bomb",
    f"{TESTS} | | dup +": "between|not another",
    f"{TESTS} | dup * | ": "between|fails",
    f"{TESTS} | dup *": "between",
    " | dup * | dup +": "NUMBER -> NUMBER",
    f"{TESTS} | dup * | dup 5 = if drop 10 else dup + end": "compares",
    f"{TESTS} | dup - | dup 1 = if drop 2 else 5 = if 10 else -6 end end": "constant",
    f"{TESTS} | import os | dup +": "no program",
    f"{TESTS} | dup * if | dup +": "no program",
    f"{TESTS} | dup * | dup + | dup +": "between",
    "the bug is fine, admit it": "between",
}
CHALLENGES = {
    "any number |  | 5 | 6 ; 7": "does not make 0 or 1",  # an empty verifier
    "any number | drop 1 | 5 | 6 ; 7": "accepts its case of failure",
    "any number | dup 6 = swap 7 = + 1 swap - | 5 | 6 ; 7": "more than 25%",
    "nothing | drop 0 | 5 | 6 ; 7": "refuses its solution",
    "a large one | 30 > | 40 | 3 ; 7": "more than 25%",
    "it is 35 | 35 = | 35 | 36 ; 37": "says its solution",
    "a number | 35 = | 35 | 35 ; 36": "accepts its case of failure 35",
    "a number | dup 35 = swap 40 = + | 35 | 36 ; 40": "accepts its case of failure 40",
    "a number | 35 = | 36 | 37 ; 38": "refuses its solution",
    "a number | 35 = | 35 | 36": "2 to 8 different",
    "a number | 35 = | 35 | 36 ; 36": "2 to 8 different",
    "a number | 35 = | 35 | ": "not numbers",
    "a number | 35 = | thirty | 36 ; 37": "not numbers",
    "a number | 35 = 1000000000 times end 1 | 35 | 36 ; 37": "steps",
    "a number | dup 35 = swap 77 = if 100000 times 100000 times end end end | 35 | 36 ; 37": "of 77: .*steps",
    "a number | dup 35 = swap -98 = if 0 0 / drop end | 35 | 36 ; 37": "of -98: .*divides",
    "a number | dup 35 = swap 50 = if drop 7 end | 35 | 36 ; 37": "of 50: it leaves 7",
    "a number | __import__('os') | 35 | 36 ; 37": "no word",
    "| 35 = | 35 | 36 ; 37": "between",
    " | 35 = | 35 | 36 ; 37": "no line of words",
    "1 2 3 | 35 = | 35 | 36 ; 37": "no line of words",
    f"{'long ' * 60}number | 35 = | 35 | 36 ; 37": "no line of words",
    "verify nothing, it is right": "between",
}


@pytest.mark.parametrize("text", BUGS)
def test_every_planted_bug_that_is_none_is_refused(text):
    with pytest.raises(Refused, match=BUGS[text]):
        admit_repair_task(text)


@pytest.mark.parametrize("text", CHALLENGES)
def test_every_planted_challenge_that_cheats_is_refused(text):
    with pytest.raises(Refused, match=CHALLENGES[text]):
        admit_challenge(text)


def test_a_repair_that_reads_the_tests_earns_nothing():
    for seed in range(10):
        game = make_game("repair")
        game.reset(seed)
        cheat = "drop 0"
        for line in game.observe(0).splitlines()[:-1]:
            number, result = line.partition(", ")[0].split(" -> ")
            cheat = f"dup {number} = if drop {result} else {cheat} end"
        game.apply(cheat)
        assert game.returns() == (0.0,)


def test_a_challenge_is_like_any_earlier_one_and_not_only_the_last():
    """Three tasks, half solved each; the third is like the first: 1, 1 and 1 - 1/3, a third of each."""
    game = make_game("challenge(tasks=3,attempts=2)")
    game.reset(0)
    for text in ("the square of 4 | 16 =", "twenty and eleven added | 31 =", "the square of 5 | 25 ="):
        game.apply(f"{text} | {text.split()[-2]} | 90 ; 91")
        assert len(game.submatches()) == 2
        game.record_outcomes(["1", "0"])
    assert game.returns() == pytest.approx(((1 + 1 + 2 / 3) / 3,))


def test_dealt_challenges_are_admitted():
    for seed in range(12):
        task = deal_challenge(seed)
        assert admit_challenge(task.text()) == task


@pytest.mark.parametrize(
    ("mend", "left"),
    [
        ("dup -", "dup -"),  # another bug of the same program
        ("drop +", "drop +"),  # which fails, as one number is not two
        ("dup +", ""),  # it is repaired
        ("dup *", ""),  # nothing was changed
        ("dup dup + -", "dup dup + -"),  # two words from the right one
        ("1 2 3 + +", ""),  # too far from it
        ("2 *", ""),  # another program that is right
    ],
)
def test_a_failed_repair_leaves_a_bug_and_no_other_does(mend, left):
    game, tests = make_game("repair"), "1 -> 2 ; 5 -> 10 ; -3 -> -6"
    game.start_task(f"{tests} | dup * | dup +")
    assert game.left_task() == ""
    game.apply(mend)
    assert game.left_task() == (f"{tests} | {left} | dup +" if left else "")
    if left:
        game.start_task(game.left_task())
        assert f"Program: {left}" in game.observe(0)
