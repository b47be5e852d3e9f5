"""The record store against a plain dictionary, what it refuses, and how much room it takes."""

import json
import sqlite3
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.learning.trajectories import batches, valued

from arena.records import TokenTrace, Turn
from games.common.errors import UsageError
from learners.record_store.codec import from_record, to_record
from learners.record_store.interface import LearnerProgress, LeaseLost, RecordStore
from learners.record_store.sqlite import SqliteRecordStore
from learners.trajectories import Counterfactuals, Evidence, Trajectory, evidence_to_json

LEARNERS, HOLDERS = ("main", "sub"), ("here", "there")
LEASE, STALENESS, ROOM = 10.0, 1, 3  # seconds; updates; batches

floats = st.floats(allow_nan=False, allow_infinity=False)
traces = st.none() | st.builds(
    lambda ids, reply, mask: TokenTrace(
        "main-000001", tuple(ids), tuple(i for i, _ in reply), tuple(p for _, p in reply), mask
    ),
    st.lists(st.integers(0, 2**31 - 1), max_size=5),
    st.lists(st.tuples(st.integers(0, 2**31 - 1), floats), max_size=5),
    st.none() | st.just(("a", "b")),
)
turns = st.builds(
    Turn,
    st.just(1),
    st.text(),
    st.text(),
    st.text(),
    st.just(("a", "b")),
    st.text(),
    st.none() | st.text(),
    floats,
    traces,
    st.just(""),
    st.just(""),
    st.lists(st.tuples(st.text(), floats), max_size=2).map(tuple),
)
trajectories = st.builds(
    lambda turns, rewards, parent: Trajectory(
        "game", "role", "main", 1, 7, 2**62, ("main", "x"), tuple(turns), tuple(rewards), 0.1, parent
    ),
    st.lists(turns, max_size=4),
    st.lists(floats, max_size=4),
    st.none() | st.integers(0, 2**40),
)


evidence = st.builds(
    Evidence,
    values=st.none() | st.lists(floats, max_size=4).map(tuple),
    counterfactuals=st.none() | st.builds(Counterfactuals, st.lists(floats, max_size=4).map(tuple), floats),
    rollout_tokens=st.none() | floats,
    contributions=st.none() | st.lists(floats, max_size=4).map(tuple),
    taught=st.none() | st.lists(st.lists(floats, max_size=2).map(tuple), max_size=2).map(tuple),
    influence=st.none() | st.lists(st.none() | floats, max_size=4).map(tuple),
    reply_credits=st.none() | st.lists(st.lists(floats, max_size=2).map(tuple), max_size=2).map(tuple),
)


def trajectory(number, tokens=4):
    trace = TokenTrace("main", (1,) * tokens, (2,), (-0.5,), None)
    turn = Turn(0, "role", "main", "look", ("a",), "a", "a", 1.0, trace)
    return Trajectory("game", "role", "main", 0, number, number, ("main",), (turn,), (1.0,), 1.0)


def batch_of(number):
    return [trajectory(100 * number + index) for index in range(2)]


def evidence_for(batch):
    """Return evidence for each trajectory: the number of its match."""
    return [Evidence(values=(float(t.match),)) for t in batch]


def opened(path, batches=ROOM):
    batch_bytes = sum(len(part) for part in to_record(trajectory(100), *evidence_for([trajectory(100)]))[-4:]) * 2
    return SqliteRecordStore(path, max_staleness=STALENESS, lease_seconds=LEASE, max_bytes=batch_bytes * batches + 100)


@dataclass
class Model:
    """What the store should be, as plain dictionaries."""

    appended: dict[int, int] = field(default_factory=dict)  # version by batch
    done: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LEARNERS, 0))
    consumed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LEARNERS, 0))
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LEARNERS, 0))
    leases: dict[str, tuple[str, float, int]] = field(default_factory=dict)  # holder, expiry and number of the lease
    tokens: int = 0

    def append(self, batch, version):
        if batch in self.appended:
            return True
        if sum(number > min(self.done.values()) for number in self.appended) >= ROOM:
            return False
        self.appended[batch] = version
        return True

    def lease(self, learner, holder, now):
        if self.done[learner] + 1 not in self.appended:
            return None
        if learner in self.leases and self.leases[learner][0] != holder and now < self.leases[learner][1]:
            return None
        self.tokens += 1
        self.leases[learner] = holder, now + LEASE, self.tokens
        batch = self.done[learner] + 1
        stale = self.done[learner] - self.appended[batch] > STALENESS
        return batch, stale, self.tokens

    def acknowledge(self, learner, batch, stale, lease):
        if learner not in self.leases or self.leases[learner][2] != lease or self.done[learner] + 1 != batch:
            return False
        del self.leases[learner]
        self.done[learner] = batch
        (self.dropped if stale else self.consumed)[learner] += 2
        return True


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2)),
        st.tuples(st.just("append_again")),
        st.tuples(st.just("lease"), st.sampled_from(LEARNERS), st.sampled_from(HOLDERS)),
        st.tuples(st.just("acknowledge"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.sampled_from([1.0, LEASE])),
        st.tuples(
            st.just("reopen"),
        ),
    ),
    max_size=40,
)


class Both:
    """The store and the model, given the same calls."""

    def __init__(self, path):
        SqliteRecordStore.create(path, LEARNERS)
        self.path, self.store, self.model = path, opened(path), Model()
        self.now, self.leases = 0.0, []

    def append(self, older):
        batch = max(self.model.appended, default=0) + 1
        version = max(batch - 1 - older, 0)
        new = batch_of(batch)
        assert self.store.append(batch, version, new, evidence_for(new)) == self.model.append(batch, version)

    def append_again(self):
        if self.model.appended:
            other = batch_of(77)
            assert self.store.append(max(self.model.appended), 0, other, evidence_for(other))

    def lease(self, learner, holder):
        lease, expected = self.store.lease(learner, holder, self.now), self.model.lease(learner, holder, self.now)
        assert (lease is None) == (expected is None)
        if lease is not None:
            batch, stale, number = expected
            assert (lease.batch, lease.dropped) == (batch, 2 if stale else 0)
            assert list(lease.trajectories) == ([] if stale else batch_of(batch))
            assert list(lease.evidence) == evidence_for(lease.trajectories)
            self.leases.append((lease, stale, number))

    def acknowledge(self, index):
        if not self.leases:
            return
        lease, stale, number = self.leases[-1 - index % len(self.leases)]
        if self.model.acknowledge(lease.learner, lease.batch, stale, number):
            self.store.acknowledge(lease, f"{lease.learner} {lease.batch}")
            assert self.store.report(lease.learner, lease.batch) == f"{lease.learner} {lease.batch}"
        else:
            with pytest.raises(LeaseLost, match=f"Learner {lease.learner} cannot acknowledge batch {lease.batch}"):
                self.store.acknowledge(lease, "")

    def wait(self, seconds):
        self.now += seconds

    def reopen(self):
        self.store.close()
        self.store = opened(self.path)

    def compare(self):
        model = self.model
        for name in LEARNERS:
            assert self.store.progress(name) == LearnerProgress(
                model.done[name], model.consumed[name], model.dropped[name]
            )
        assert self.store.stored()[0] == 2 * sum(number > min(model.done.values()) for number in model.appended)


@settings(max_examples=40, deadline=None)
@given(steps=steps)
def test_it_does_as_a_dictionary_would(steps, tmp_path_factory):
    both = Both(tmp_path_factory.mktemp("store") / "records.sqlite")
    for method, *arguments in steps:
        getattr(both, method)(*arguments)
        both.compare()
    both.store.close()


@settings(max_examples=100, deadline=None)
@given(stored=trajectories, facts=evidence)
def test_a_record_reads_back_equal_to_the_last_bit(stored, facts):
    record = to_record(stored, facts)
    trajectory, found = from_record(*record[-4:])
    assert (repr(trajectory), found) == (repr(stored), facts)  # repr tells -0.0 from 0.0
    assert json.dumps(evidence_to_json(found)) == json.dumps(evidence_to_json(facts))
    assert (record.query, record.rollout, record.invocation, record.parent) == (2**62, 7, 7, stored.parent)
    with pytest.raises(ValueError, match="a record of"):
        from_record(record.facts, record.tokens + bytes(4), record.logprobs, record.rewards)


@settings(max_examples=10, deadline=None)
@given(batch=batches())
def test_batches_of_any_game_read_back_equal(batch):
    pairs = list(zip(batch, valued(batch), strict=True))
    assert [from_record(*to_record(*pair)[-4:]) for pair in pairs] == pairs


def test_a_number_that_is_not_finite_is_refused(tmp_path):
    path = tmp_path / "records.sqlite"
    SqliteRecordStore.create(path, LEARNERS)
    with opened(path) as store:
        with pytest.raises(ValueError, match="Out of range float"):
            store.append(1, 0, [trajectory(1)._replace(match_return=float("nan"))], [Evidence()])
        assert store.stored() == (0, 0)
        with pytest.raises(ValueError, match="batch 2 cannot be appended: the newest is 0, so 1 is next"):
            store.append(2, 0, batch_of(2), evidence_for(batch_of(2)))


@pytest.mark.thorough
def test_the_file_stays_bounded_while_a_learner_keeps_up(tmp_path):
    """Forty batches go through a file that never holds more than one, and whose log is checkpointed every 4 MB."""
    path = tmp_path / "records.sqlite"
    SqliteRecordStore.create(path, ["main"])
    batch, largest = [trajectory(index, tokens=500) for index in range(300)], 0
    batch_bytes = 300 * sum(len(part) for part in to_record(batch[0], Evidence())[-4:])
    with opened(path, batches=0) as small:  # an empty store takes any batch, and then none until it is empty again
        for number in range(1, 41):
            assert small.append(number, number - 1, batch, evidence_for(batch))
            assert not small.append(number + 1, number, batch, evidence_for(batch))
            small.acknowledge(small.lease("main", "here", 0.0), "{}")
            small.delete_reports(number)
            largest = max(largest, sum(file.stat().st_size for file in tmp_path.glob("records.sqlite*")))
    assert 40 * batch_bytes > 25 * 2**20
    assert largest < 8 * 2**20
    assert path.stat().st_size < 3 * batch_bytes


def test_a_missing_damaged_foreign_or_newer_file_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "records.sqlite"
    with pytest.raises(UsageError, match="There is no record store"):
        opened(path)
    path.write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(UsageError, match=r"records\.sqlite is damaged \(file is not a database\)"):
        opened(path)
    path.unlink()
    with sqlite3.connect(path) as songs:
        songs.execute("CREATE TABLE songs (name)")
    songs.close()
    with pytest.raises(UsageError, match="not a record store"):
        opened(path)
    path.unlink()
    SqliteRecordStore.create(path, LEARNERS)
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 2")
    newer.close()
    with pytest.raises(UsageError, match="the layout 2 of a newer league"):
        opened(path)


def test_it_is_a_record_store(tmp_path):
    SqliteRecordStore.create(tmp_path / "records.sqlite", LEARNERS)
    store: RecordStore = opened(tmp_path / "records.sqlite")
    with pytest.raises(UsageError, match="has no learner 'mian'"):
        store.progress("mian")
