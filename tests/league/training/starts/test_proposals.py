"""A run whose tasks players write: stored with author and attempts, drawn again, and shown in a gallery."""

from itertools import combinations

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from arena.records import MatchRequest, Start
from arena.replays import load_episodes
from arena.samplers.scripted import Random
from arena.scheduler import play
from arena.submatches import task_start
from games.registry import make_game
from games.tasks.challenges import accepts, admit_challenge
from games.tasks.proposers.rewards import similarity
from league import load_config, open_run, resume, train
from league.training.board.metrics_log import read_metrics
from league.training.learning.starts import left_tasks, unlike
from league.training.starts.gallery import gallery
from league.training.starts.measured import StoredStart
from league.training.starts.pool import POOL_FILE, StartPool
from roles.cards import load_roles

WRITER, SOLVER = "propose_sums(digits=2,base=3,form=1,tasks=2,attempts=4)", "sums(digits=2,base=3)"
SETTINGS = f"""
threads = 1
iterations = 3
snapshot_every = 3
[games]
'{WRITER}' = {{ matches = 8 }}
'{SOLVER}' = {{ matches = 16 }}
[matchmaking]
self_play = 1.0
fictitious = 0.0
group_size = 4
[credit]
rule = "grpo"
rules = {{ "{WRITER}/proposer" = "rae" }}
[starts]
rule = "learnability"
size = 8
[model]
hidden_size = 32
intermediate_size = 64
vocabulary = 320
[evaluation]
exact = false
matches = 0
anchors = []
"""


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_written_tasks_are_stored_by_author_and_played_again(tmp_path, shared):
    """The proposer and the solver share their weights, or have policies of their own."""
    own = (
        ""
        if shared
        else f"""
[roles.policy]
"{WRITER}/proposer" = "writer"
"{SOLVER}/solver" = "main"
"""
    )
    (tmp_path / "run.toml").write_text(SETTINGS + own)
    train(load_config(tmp_path / "run.toml", "seed=1"), tmp_path / "run")
    author = "main" if shared else "writer"
    with StartPool(tmp_path / "run" / POOL_FILE, reads=True) as pool:
        written = [one for one in pool.starts(SOLVER) if one.author == author]
        writers = {one.name for one in pool.starts(WRITER)}
    assert written
    assert all(one.start.task and one.plays >= 4 and one.born > 0 and one.parent in writers for one in written)
    assert all(one.size == len(one.start.task.partition(" ")[0]) for one in written)
    assert len({one.start.task for one in written}) == len(written)  # a task is one start, however often it is written
    last = list(read_metrics(tmp_path / "run"))[-1]
    assert last[f"{WRITER}/tasks/written"] == 16
    assert 0.0 <= last[f"{WRITER}/tasks/invalid"] < 1.0
    assert 0.0 < last[f"{WRITER}/tasks/diversity"] < 1.0
    assert 0.0 < last[f"{SOLVER}/starts/by/{author}"] < 1.0
    assert set(open_run(tmp_path / "run").config.games) == {WRITER, SOLVER}


def test_the_board_shows_tasks_and_matches_where_no_snapshot_is_measured(tmp_path):
    (tmp_path / "run.toml").write_text(SETTINGS)
    config = load_config(tmp_path / "run.toml", "iterations=1", "snapshot_every=1", "cold_start.steps=1")
    train(config, tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tb"))
    events.Reload()
    shown = {tag.removesuffix("/text_summary") for tag in events.Tags()["tensors"]}
    assert f"tasks/{SOLVER}" in shown
    assert any(tag.startswith("transcripts/") for tag in shown)


@pytest.mark.slow
def test_a_run_that_was_stopped_writes_the_same_tasks(tmp_path):
    (tmp_path / "run.toml").write_text(SETTINGS)
    config = load_config(tmp_path / "run.toml", "seed=2", "cold_start.steps=2")
    pools = []
    for name in ("whole", "stopped"):
        train(config, tmp_path / name, watch=lambda iteration, _, name=name: name == "stopped" and iteration == 1)
        if name == "stopped":
            resume(tmp_path / name)
        with StartPool(tmp_path / name / POOL_FILE, reads=True) as pool:
            pools.append((pool.digest(3), [one for game in pool.games() for one in pool.starts(game)]))
    assert pools[0] == pools[1]
    assert {one.author for one in pools[0][1]} == {"seed", "main"}


def test_a_gallery_shows_the_newest_of_each_band():
    def one(task, rate, born):
        return StoredStart(Start("sums", 0, task=task), 2, author="main", born=born, plays=8, rate=rate)

    shown = gallery([one("11 + 22", 0.5, 3), one("1 + 2", 1.0, 1), one("33 + 44", 0.0, 2)], "sums at iteration 4")
    assert shown.splitlines()[0] == "sums at iteration 4"
    assert "possible: 1\n  '11 + 22': 50% of 8, size 2, by main, born 3" in shown
    assert shown.index("solved: 1") < shown.index("possible: 1") < shown.index("out of reach: 1")
    assert "\\n" not in shown


def test_a_task_that_is_like_one_in_the_pool_is_not_kept(tmp_path):
    """Of "11 + 22", "11 + 23" has the pairs 11, 1 , +, + , 2 and 22 against 23: five of six."""

    def task(text, name="sums"):
        return StoredStart(Start(name, 0, task=text), 2)

    with StartPool(tmp_path / "pool") as pool:
        pool.add([task("11 + 22"), task("99 + 99", "programs")])
        written = [task("11 + 22"), task("11 + 23"), task("95 + 87"), task("95 + 88"), task("99 + 99")]

        def kept(alike):
            return [one.start.task for one in unlike(written, pool, alike)]

        assert kept(1.0) == [one.start.task for one in written]
        assert kept(0.84) == kept(1.0)
        assert kept(0.83) == ["11 + 22", "95 + 87", "99 + 99"]


@pytest.mark.thorough
def test_a_run_counts_no_attempts_at_tasks_that_are_not_kept(tmp_path):
    (tmp_path / "run.toml").write_text(SETTINGS)
    train(load_config(tmp_path / "run.toml", "starts.alike=0.5", "cold_start.steps=2"), tmp_path / "run")
    with StartPool(tmp_path / "run" / POOL_FILE, reads=True) as pool:
        written = [one for one in pool.starts(SOLVER) if one.author == "main"]
    assert written
    assert all(similarity(one.start.task, other.start.task) < 0.5 for one, other in combinations(written, 2))
    assert sum(line.get("starts/alike", 0.0) for line in read_metrics(tmp_path / "run")) > 0


def test_failed_attempts_leave_their_tasks_with_the_attempted_one_as_parent():
    name, bug = "repair(form=1)", "1 -> 2 ; 5 -> 10 ; -3 -> -6 | dup * | dup +"
    roles, start = load_roles(make_game(name).spec), task_start(name, bug)
    dealt = MatchRequest(0, name, 0, 0, ("main",), (True,)).from_start(start)
    requests = [dealt._replace(index=number, sample_seed=number) for number in range(60)]
    engine = Random()
    episodes = play(requests, roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game)
    every = left_tasks(episodes, 60, 0, 3)
    assert len(every) > 5
    assert {(one.parent, one.author, one.born) for one in every} == {(start.name, "main", 3)}
    assert len({one.name for one in every}) == len(every)
    solver = make_game(name)
    for one in every:
        solver.start_task(one.start.task)
        assert one.start.task != bug
        assert task_start(name, one.start.task) == one.start
    some = left_tasks(episodes, 4, 0, 3)
    assert len(some) == 4
    assert {*some} < {*every}
    assert some == left_tasks(episodes, 4, 0, 3) != left_tasks(episodes, 4, 1, 3)
    untrained = [one._replace(request=one.request._replace(trained=(False,))) for one in episodes]
    assert left_tasks(episodes, 0, 0, 3) == left_tasks(untrained, 9, 0, 3) == []


@pytest.mark.thorough
def test_a_run_plays_the_bugs_that_its_repairs_left(tmp_path):
    game = "repair(form=1)"
    settings = SETTINGS[: SETTINGS.index("[games]")] + SETTINGS[SETTINGS.index("[matchmaking]") :]
    settings = settings.replace(f'rules = {{ "{WRITER}/proposer" = "rae" }}', "").replace(
        "size = 8", "size = 8\nfailures = 5"
    )
    (tmp_path / "run.toml").write_text(f"games.'{game}' = {{ matches = 32 }}\n{settings}")
    train(
        load_config(tmp_path / "run.toml", "cold_start.steps=2", "starts.failures=5", "starts.unplayed=1.0"),
        tmp_path / "run",
    )
    with StartPool(tmp_path / "run" / POOL_FILE, reads=True) as pool:
        starts = pool.starts(game)
    left = [one for one in starts if one.author == "main"]
    assert left
    assert {one.parent for one in left} <= {one.name for one in starts}
    assert any(one.plays for one in left)


@pytest.mark.thorough
@pytest.mark.parametrize("author", ["good", "poor"])
def test_a_run_of_challenges_keeps_those_that_the_filter_admits_and_tries_each(tmp_path, author):
    """Self-Challenging: a verifier that accepts everything opens no task; each other one is tried by the solver."""
    game, solved = "challenge(attempts=4)", "find_number"
    settings = SETTINGS[: SETTINGS.index("[games]")] + SETTINGS[SETTINGS.index("[matchmaking]") :]
    settings = settings.replace(f'rules = {{ "{WRITER}/proposer" = "rae" }}', "")
    (tmp_path / "run.toml").write_text(
        f"episodes_kept = 32\ngames = {{ '{game}' = {{ matches = 8 }}, {solved} = {{ matches = 8 }} }}\n"
        f"roles = {{ max_reply_tokens = 6, player = {{ '{game}/challenger' = 'scripted:{author}' }} }}\n{settings}"
    )
    train(
        load_config(tmp_path / "run.toml", "cold_start.steps=2", "iterations=2", "snapshot_every=2"), tmp_path / "run"
    )
    with StartPool(tmp_path / "run" / POOL_FILE, reads=True) as pool:
        tasks, writers = pool.starts(solved), {one.name for one in pool.starts(game)}
    written = {one.start.task: one for one in tasks if one.author == f"scripted:{author}"}
    lines = list(read_metrics(tmp_path / "run"))[-2:]
    assert [line[f"{game}/tasks/written"] for line in lines] == [16, 16]
    assert {line[f"{game}/tasks/invalid"] for line in lines} == {0.0 if author == "good" else 1.0}
    assert (len(written) > 8) == (author == "good")
    for task, one in written.items():
        assert admit_challenge(task).text() == task
        assert one.parent in writers
        assert one.plays % 4 == 0 < one.plays
    [kept] = (tmp_path / "run" / "episodes").glob("*.jsonl")
    matches = [one for one in load_episodes(kept) if one.request.game == game]
    assert len(matches) == 8
    for match in matches:
        assert match.returns == ((0.0,) if author == "good" else (-1.0,)), "nobody solves them yet; invalid is worse"
        assert len(match.children) == (8 if author == "good" else 0)
        for child in match.children:
            numbers = [turn.action for turn in child.turns if turn.action]
            assert child.returns == (float(any(accepts(admit_challenge(child.request.task), int(n)) for n in numbers)),)
