"""A Ray cluster of several nodes on this machine, whose workers and nodes a test can kill."""

import os
import signal
import sys

import psutil
import pytest
from ray._private import ray_constants
from ray.cluster_utils import Cluster


class Nodes:
    """A head node without CPUs, and ``number`` nodes of this many CPUs and (made-up) GPUs."""

    def __init__(self, number, cpus, gpus):
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.nodes = [self._cluster.add_node(wait=False, num_cpus=cpus, num_gpus=gpus) for _ in range(number)]
        self._cluster.wait_for_nodes()
        self.address = self._cluster.address

    def processes(self, kind):
        """Return the worker processes of a kind, in the order in which they started."""
        raylets = [
            info.process.pid
            for node in self._cluster.list_all_nodes()
            for info in node.all_processes.get(ray_constants.PROCESS_TYPE_RAYLET, [])
        ]
        children = [child for pid in raylets if psutil.pid_exists(pid) for child in psutil.Process(pid).children()]
        workers = [process for process in children if title(process).startswith(f"ray::{kind}")]
        return sorted(workers, key=lambda process: process.create_time())

    def kill(self, kind):
        """Kill the oldest process of a kind; return its id."""
        victim = self.processes(kind)[0]
        victim.send_signal(signal.SIGKILL)
        return victim.pid

    def remove(self, number):
        """End a node with all its processes at once."""
        self._cluster.remove_node(self.nodes[number], allow_graceful=False)

    def close(self):
        self._cluster.shutdown()


def title(process):
    """Return a process's title; "" if it has ended."""
    try:
        return (process.cmdline() or [""])[0]
    except psutil.NoSuchProcess:
        return ""


def nodes(number, cpus, gpus=0):
    """Yield a cluster whose workers can import the project, and end it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patch.setenv("RAY_worker_niceness", "0")  # as other tests that run at the same time
        cluster = Nodes(number, cpus, gpus)
        yield cluster
        cluster.close()
