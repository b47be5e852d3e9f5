"""Between two checkpoints a run keeps its matches: killed, it continues from the older one to the same bits."""

import signal

import pytest
from support.processes.runs import TINY, TrainingProcess, contents, league_train

from arena.records import EndReason, Episode, MatchRequest, TokenTrace, Turn
from arena.replays import save_episodes
from games.common.errors import UsageError
from league.config.load import load
from league.training.checkpoints.played import PlayedMatches

RARELY = TINY.replace("snapshot_every = 2", "snapshot_every = 6") + "checkpoint_every = 4\n"


def episodes(number, first=0):
    requests = [MatchRequest(first + i, "g", i, i, ("a",), (True,)) for i in range(number)]
    return [Episode(request, (), (0.1 + request.index,), EndReason.FINISHED) for request in requests]


def test_only_the_same_matches_played_to_the_end_are_remembered(tmp_path):
    (tmp_path / "state").mkdir()
    played, matches = PlayedMatches(tmp_path), episodes(3)
    requests = [match.request for match in matches]
    assert played.of(7, requests) is None
    played.keep(7, matches)
    assert played.of(7, requests) == matches
    assert played.of(7, [one.request for one in episodes(3, first=1)]) is None
    assert played.of(8, requests) is None
    path = tmp_path / "state/played/000007.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    assert played.of(7, requests) is None
    played.forget()
    assert not path.exists()


def test_what_many_matches_share_is_written_once_and_comes_back_to_the_bit(tmp_path):
    """Turns that differ in nothing but a reward, its sign of zero, or their trace stay apart; so do endings."""
    traces = [TokenTrace("a", (1, 2), (3,), (logprob,), ("bet", "pass")) for logprob in (0.0, -0.0, 0.1 + 0.2)]
    turns = [
        Turn(
            0, "first", "a", "You hold ü\u2028", ("bet", "pass"), "bet", "bet", reward, trace, named=(("pot", reward),)
        )
        for reward in (0.0, -0.0, 1)
        for trace in (*traces, None)
    ]
    courses = [(turns[0],), (turns[0], turns[1]), *((turn,) for turn in turns), ()]
    forfeit = {"end": EndReason.FORFEIT, "offender": 0}
    many = [
        one._replace(turns=courses[i % len(courses)], **(forfeit if i % 7 == 0 else {"returns": (0.0 * (-1) ** i,)}))
        for i, one in enumerate(episodes(900))
    ]
    many[5] = many[5]._replace(children=tuple(many[:2]), outcome="won", shaping=(0.25,))
    played, requests = PlayedMatches(tmp_path), [match.request for match in many]
    played.keep(3, many)
    back = played.of(3, requests)
    assert repr(back) == repr(many)  # == takes −0.0 for 0.0, and 1.0 for 1
    assert back[5].children == many[5].children
    content = (tmp_path / "state/played/000003.jsonl").read_text()
    assert content.count("You hold") == len(turns) + 3, "each turn once, and those of the two submatches"
    other = [*requests[:-1], requests[-1]._replace(explore=(0.5,))]
    assert played.of(3, other) is None
    (tmp_path / "state/played/000003.jsonl").write_text(content.replace("0.25", "0.26"))
    assert played.of(3, requests) is None, "a changed digit"


def test_matches_of_an_older_file_are_played_again(tmp_path):
    matches = episodes(3)
    (tmp_path / "state/played").mkdir(parents=True)
    save_episodes(tmp_path / "state/played/000007.jsonl", matches)
    assert PlayedMatches(tmp_path).of(7, [match.request for match in matches]) is None


@pytest.mark.thorough
def test_a_run_that_saves_its_state_rarely_is_the_run_that_saves_it_always(tmp_path):
    (tmp_path / "always.toml").write_text(RARELY.replace("checkpoint_every = 4\n", ""))
    (tmp_path / "rarely.toml").write_text(RARELY)
    run = tmp_path / "run"
    assert league_train(tmp_path / "always.toml", run_dir=tmp_path / "always").status == 0
    first, written = run / "state/played/000001.jsonl", set()
    for words, die_at in (
        (tmp_path / "rarely.toml", ("played/.000002", 0)),  # played, and not written
        ("--resume", ("state/.iteration-000004", 1)),  # from iteration 0: it remembers the first, and learns from it
        ("--resume", ("played/.000005", 0)),
    ):
        ended = TrainingProcess(words, run_dir=run, die_at=die_at).end()
        assert ended.status == -signal.SIGKILL, ended.output
        written |= {first.stat().st_mtime_ns} if first.exists() else set()
    assert len(written) == 1
    assert {path.name for path in run.glob("state/iteration-*")} <= {"iteration-000000", "iteration-000004"}
    assert league_train("--resume", run_dir=run).status == 0
    assert not (run / "state/played").exists()
    always, rarely = contents(tmp_path / "always"), contents(run)
    ours = {"config.toml"} | {name for name in always | rarely if name.startswith("state/iteration-00000")}
    assert {name for name in always | rarely if always.get(name) != rarely.get(name)} <= ours
    weights = "state/iteration-000006/main.safetensors"
    assert always[weights] == rarely[weights]


def test_where_every_state_is_needed_it_is_refused():
    with pytest.raises(UsageError, match="checkpoint_every = 2: a stream saves its state after every iteration"):
        load("pocket", ["checkpoint_every=2", "async_learners.mode=stream"])
