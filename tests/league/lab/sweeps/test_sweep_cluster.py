"""Runs of a sweep side by side: who trains what, what follows a death, and the same runs as one after another."""

import json
from itertools import count

import pytest
from support.processes.runs import TINY

from arena.cluster.interface import PendingCall, Resources, WorkerDied, WorkerId
from games.common.errors import UsageError
from league.cli import main
from league.lab.sweeps import side_by_side
from league.lab.sweeps.plan import load_sweep, plan_runs
from league.lab.sweeps.side_by_side import needed, room_for, run_on_cluster
from league.lab.sweeps.training import Task, Trained, run_here


class Here:
    """A cluster in this process: a call is made when its result is asked for, the last one started first."""

    def __init__(self, *nodes):
        self._nodes, self._refs = nodes, count()
        self.pending, self.started, self.stopped, self.most = {}, [], [], 0

    def nodes(self):
        return list(self._nodes)

    def start(self, spec, number, restarts):
        worker = Worker(self, WorkerId(spec.kind, number, restarts), spec.make(*spec.arguments))
        self.started.append((worker.worker_id, spec.cpus, spec.gpus))
        return worker

    def wait(self, calls, timeout):
        self.most = max(self.most, len(calls))
        return calls[-1:]

    def get(self, call):
        worker, method, arguments = self.pending.pop(call.ref)
        return getattr(worker.holds, method)(*arguments)


class Worker:
    def __init__(self, cluster, worker_id, holds):
        self.cluster, self.worker_id, self.holds = cluster, worker_id, holds

    def call(self, method, *arguments):
        ref = next(self.cluster._refs)
        self.cluster.pending[ref] = (self, method, arguments)
        return PendingCall(ref, self.worker_id)

    def stop(self):
        self.cluster.stopped.append(self.worker_id)


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return plan_runs(str(path), range(5), ["threads=2"])


@pytest.fixture
def trained(monkeypatch):
    """Let training only note what is trained; return that."""
    done = []

    def train(folder, run, task, meter):
        done.append(run.folder)
        return Trained(True, "")

    monkeypatch.setattr(side_by_side, "train_and_ask", train)
    monkeypatch.setattr(side_by_side, "trained", lambda folder, run, tokens: run.folder in done)
    monkeypatch.setattr(side_by_side, "complete", lambda folder, run, task: run.folder in done)
    return done


def test_as_many_at_a_time_as_there_is_room_for_and_all_of_them_once(runs, trained, tmp_path):
    trained.append(runs[1].folder)  # before this
    cluster, said = Here(Resources(5.0, 0.0), Resources(3.0, 0.0)), []
    outcome = run_on_cluster(tmp_path, runs, Task(), cluster, said.append)
    assert (outcome.stopped, outcome.failures) == (False, {})
    assert sorted(trained) == [run.folder for run in runs]
    assert cluster.most == 3  # two on the first machine, one on the second
    assert [number for (_, number, _), _, _ in cluster.started] == [0, 1, 2, 2]  # the place of the run that ends first
    assert {(cpus, gpus) for _, cpus, gpus in cluster.started} == {(2, 0.0)}
    assert sorted(cluster.stopped) == sorted(worker for worker, _, _ in cluster.started)
    assert said[0] == "3 are trained at a time, each in its own process."
    assert [line for line in said if line.startswith("Run 2 ")] == []
    assert (
        run_on_cluster(tmp_path, runs, Task(), Here(), said.append).failures == {}
    )  # nothing is left, and nobody asked


def test_a_run_whose_process_dies_goes_on_in_another_and_fails_at_the_third(runs, trained, tmp_path, monkeypatch):
    deaths, train = [], side_by_side.train_and_ask

    def dies(folder, run, task, meter):
        limit = {runs[0].folder: 2, runs[3].folder: 9}.get(run.folder, 0)
        if deaths.count(run.folder) < limit:
            deaths.append(run.folder)
            raise WorkerDied(WorkerId("run", 0, len(deaths) - 1), "killed")
        return train(folder, run, task, meter)

    monkeypatch.setattr(side_by_side, "train_and_ask", dies)
    cluster = Here(Resources(2.0, 0.0))
    outcome = run_on_cluster(tmp_path, runs, Task(), cluster, lambda text: None)
    assert outcome.failures == {runs[3].folder: "3 processes died training it; the last: run 0 died (killed)."}
    assert sorted(trained) == [run.folder for run in runs if run is not runs[3]]
    assert len(cluster.started) == len(cluster.stopped) == 3 + 3 + 3  # of the first, of the fourth, and of the others


def test_a_failure_is_told_and_a_disk_that_is_not_shared_is_one(runs, tmp_path, monkeypatch):
    results = iter([Trained(False, "It broke."), *[Trained(True, "")] * 4])
    monkeypatch.setattr(side_by_side, "train_and_ask", lambda *_: next(results))
    outcome = run_on_cluster(tmp_path, runs, Task(), Here(Resources(2.0, 0.0)), lambda text: None)
    assert outcome.failures[runs[0].folder] == "It broke."
    assert "must be on a disk shared by all machines of the cluster" in outcome.failures[runs[1].folder]


def test_ctrl_c_stops_it_with_what_is_saved(runs, trained, tmp_path, monkeypatch):
    cluster = Here(Resources(4.0, 0.0))
    monkeypatch.setattr(cluster, "wait", lambda calls, timeout: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run_on_cluster(tmp_path, runs, Task(), cluster, lambda text: None).stopped
    assert len(cluster.stopped) == 2


def test_a_machine_that_is_too_small_is_told(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    [whole] = plan_runs(str(path), [0], ["threads=0"])
    [on_gpu] = plan_runs(str(path), [0], ["model.device=cuda"])
    nodes = [Resources(4.0, 0.0), Resources(8.0, 2.0)]
    assert needed([whole], nodes) == Resources(8.0, 0.0)
    assert room_for(needed([on_gpu], nodes), nodes) == 2
    with pytest.raises(UsageError, match=r"needs 1 cores .* and 1 GPUs .* 4 cores and 0 GPUs. Set threads"):
        room_for(needed([on_gpu], nodes), nodes[:1])


@pytest.mark.slow
def test_over_ray_the_runs_are_those_of_one_after_another(tmp_path, capsys):
    pytest.importorskip("ray")
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    settings = ["iterations=2", "snapshot_every=1", "games.kuhn_poker.matches=16", "cold_start.steps=2", "threads=1"]
    words = ["sweep", str(path), "--seeds", "0-1", *(word for setting in settings for word in ("--set", setting))]
    assert main([*words, "--run-dir", str(tmp_path / "ray"), "--cluster", "local"]) == 0
    assert "A: as it is (seeds 0, 1)" in capsys.readouterr().out
    runs = load_sweep(tmp_path / "ray").runs
    (tmp_path / "here").mkdir()
    assert run_here(tmp_path / "here", runs, Task(), lambda text: None).failures == {}
    for run in runs:
        ours, theirs = (
            [json.loads(line) for line in (tmp_path / place / run.folder / "metrics.jsonl").read_text().splitlines()]
            for place in ("here", "ray")
        )
        assert [line["kuhn_poker/exploitability"] for line in ours] == pytest.approx(
            [line["kuhn_poker/exploitability"] for line in theirs], abs=1e-6
        )
