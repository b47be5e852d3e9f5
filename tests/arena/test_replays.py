"""Episodes are saved and loaded exactly, other files are refused, and files are complete or absent."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.records import Belief, Cast, EndReason, Episode, MatchRequest, TokenTrace, Turn
from arena.replays import HEADER, load_episodes, save_episodes
from games.common.errors import UsageError
from games.common.files import atomic_write

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text()
TUPLE = st.lists(TEXTS, max_size=3).map(tuple)
IDS = st.lists(st.integers(0, 2**17), max_size=4).map(tuple)
TRACES = st.builds(
    TokenTrace,
    snapshot=TEXTS,
    prompt_ids=IDS,
    reply_ids=IDS,
    logprobs=st.lists(FLOATS, max_size=4).map(tuple),
    mask=st.none() | TUPLE,
    temperature=FLOATS,
    truncation=st.tuples(st.integers(0, 99), FLOATS, FLOATS),
)
TURNS = st.builds(
    Turn,
    seat=st.integers(0, 5),
    role=TEXTS,
    player=TEXTS,
    observation=TEXTS,
    legal=TUPLE,
    reply=TEXTS,
    action=st.none() | TEXTS,
    reward=FLOATS,
    trace=st.none() | TRACES,
    named=st.lists(st.tuples(TEXTS, FLOATS), max_size=2).map(tuple),
)
REQUESTS = st.builds(
    MatchRequest,
    index=st.integers(0),
    game=TEXTS,
    deal_seed=st.integers(0, 2**63),
    sample_seed=st.integers(0, 2**63),
    players=TUPLE,
    trained=st.lists(st.booleans(), max_size=3).map(tuple),
    rule=TEXTS,
    parent=st.none() | st.integers(0),
    task=TEXTS,
    cast=st.lists(st.builds(Cast, TEXTS, TUPLE, st.just((True, False))), max_size=1).map(tuple),
    branch=st.lists(st.integers(0, 2**63), max_size=1).map(tuple),
    explore=st.lists(FLOATS, max_size=2).map(tuple),
)


BELIEFS = st.builds(
    Belief,
    probe=TEXTS,
    seat=st.integers(0, 5),
    after=st.integers(0),
    observation=TEXTS,
    answers=TUPLE,
    truths=TUPLE,
    probabilities=st.lists(FLOATS, max_size=3).map(tuple),
)


def episodes_with(children):
    return st.builds(
        Episode,
        request=REQUESTS,
        turns=st.lists(TURNS, max_size=2).map(tuple),
        returns=st.lists(FLOATS, max_size=3).map(tuple),
        end=st.sampled_from(EndReason),
        offender=st.none() | st.integers(0, 5),
        children=children,
        outcome=TEXTS,
        beliefs=st.lists(BELIEFS, max_size=1).map(tuple),
        shaping=st.lists(FLOATS, max_size=2).map(tuple),
        preferred=st.lists(st.none() | FLOATS, max_size=2).map(tuple),
    )


EPISODES = episodes_with(st.just(()))
EXAMPLE = Episode(
    MatchRequest(7, "kuhn_poker", 1, 2, ("a", "b"), (True, False), "self_play"),
    (Turn(0, "first", "a", "Your card: K\u2028\n", ("pass", "bet"), "bet", "bet", 0.1 + 0.2, None),),
    (0.1 + 0.2, -1e-320),
    EndReason.FORFEIT,
    1,
)


@given(st.lists(EPISODES, max_size=3))
def test_round_trip_is_exact(tmp_path_factory, episodes):
    path = tmp_path_factory.mktemp("episodes") / "some.jsonl"
    save_episodes(path, episodes)
    loaded = load_episodes(path)
    assert loaded == episodes
    assert [repr(episode) for episode in loaded] == [repr(episode) for episode in episodes]  # types and -0.0 too


def test_a_turn_that_was_stored_before_there_were_named_rewards_loads(tmp_path):
    """And nothing is written where nothing was paid by name, so that files stay as they were."""
    path = tmp_path / "e.jsonl"
    paid = EXAMPLE._replace(turns=tuple(turn._replace(named=(("right", 1.0),)) for turn in EXAMPLE.turns))
    save_episodes(path, [EXAMPLE, paid])
    before, after = (json.loads(line)["turns"][0] for line in path.read_text().splitlines()[1:])
    assert "named" not in before
    assert after == {**before, "named": [["right", 1.0]]}
    assert load_episodes(path) == [EXAMPLE, paid]


def test_a_trace_from_before_turns_had_versions_loads_and_is_written_as_it_was(tmp_path):
    path = tmp_path / "e.jsonl"
    trace = TokenTrace("main", (1,), (2,), (-0.5,), None)
    old, new = (
        EXAMPLE._replace(turns=tuple(turn._replace(trace=one) for turn in EXAMPLE.turns))
        for one in (trace, trace._replace(version=7))
    )
    save_episodes(path, [old, new])
    before, after = (json.loads(line)["turns"][0]["trace"] for line in path.read_text().splitlines()[1:])
    assert "version" not in before
    assert after == {**before, "version": 7}
    assert load_episodes(path) == [old, new]


def test_one_line_an_episode_in_plain_ascii(tmp_path):
    path = tmp_path / "new" / "folder" / "e.jsonl"
    save_episodes(path, [EXAMPLE, EXAMPLE])
    lines = path.read_bytes().decode("ascii").splitlines()
    assert len(lines) == 3
    assert json.loads(lines[1])["request"]["players"] == ["a", "b"]


def test_numbers_that_are_not_finite_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        save_episodes(tmp_path / "e.jsonl", [EXAMPLE._replace(returns=(float("nan"), 0.0))])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not a file of episodes: line 1 is not JSON"),
        ("hello\n", "is not a file of episodes: line 1 is not JSON"),
        ('{"a": 1}\n', "is not a file of episodes: its first line"),
        ("[1]\n", "is not a file of episodes: its first line"),
        (json.dumps({**HEADER, "version": 9}) + "\n", "holds episodes of version 9; this program reads version 1"),
        (json.dumps(HEADER) + '\n{"request": {}}\n', "line 2 is not an episode"),
        (json.dumps(HEADER) + "\n{}", "is cut short: line 2"),
        (json.dumps(HEADER) + "\n{\n", "line 2 is not JSON"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_foreign_and_damaged_files_are_refused(tmp_path, content, message):
    path = tmp_path / "e.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=message) as caught:
        load_episodes(path)
    assert "e.jsonl" in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        load_episodes(tmp_path / "none.jsonl")


def test_atomic_write_replaces_or_leaves_alone(tmp_path, monkeypatch):
    path = tmp_path / "file"
    atomic_write(path, "old")
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"

    def refuse(handle):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="disk full"):
        atomic_write(path, "half")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("line", "reason"), [("[" * 100_000, "nested too deeply"), ('{"a": "\\ud800"}', "surrogates")])
def test_a_line_that_no_reader_can_hold_is_refused_in_a_sentence(tmp_path, line, reason):
    (tmp_path / "f").write_text(f"{json.dumps(HEADER)}\n{line}\n")
    with pytest.raises(UsageError, match=f"line 2 is not JSON .*{reason}"):
        load_episodes(tmp_path / "f")
