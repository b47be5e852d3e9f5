"""The resources that a run asks of a cluster, and the error that says what would fit where they are too many."""

import pytest

from arena.cluster.interface import Resources
from games.common.errors import UsageError
from league.config.load import validate
from league.training.backends.placement import assign_bundles, check_cluster, worker_demands

GPU = {"model": {"device": "cuda"}}


def config(model=None, **cluster):
    return validate({"games": {"kuhn_poker": {}}, "cluster": cluster, **(model or {})})


def refusal(run, nodes, learners=0):
    with pytest.raises(UsageError) as refused:
        check_cluster(run, learners, nodes)
    return str(refused.value)


def test_without_engines_a_worker_takes_what_an_engine_would():
    assert worker_demands(config(workers=3, engine_cpus=2.0), 0) == [("worker", 3, Resources(2.0, 0.0))]
    with_engines = worker_demands(config(workers=3, engines=2, worker_cpus=0.5, engine_gpus=1.0), 1)
    assert with_engines == [("worker", 3, (0.5, 0.0)), ("engine", 2, (1.0, 1.0)), ("learner", 1, (1.0, 0.0))]


def test_what_fits_is_not_refusal():
    check_cluster(config(workers=4), 0, [Resources(2.0, 0.0), Resources(2.0, 0.0)])
    check_cluster(config(workers=2), 1, [Resources(3.0, 0.0)])


def test_too_few_cpus_are_refused_with_the_workers_that_fit():
    message = refusal(config(workers=8), [Resources(2.0, 0.0), Resources(4.0, 0.0)], learners=1)
    assert message.startswith("The cluster has 6 CPUs, but [cluster] asks for 9: 8 workers of 1 and 1 learner of 1.")
    assert "Set cluster.workers = 5" in message
    check_cluster(config(workers=5), 1, [Resources(2.0, 0.0), Resources(4.0, 0.0)])


def test_too_few_gpus_are_refused():
    run = config(GPU, workers=2, engines=2, engine_gpus=1.0)
    assert refusal(run, [Resources(8.0, 1.0)]).startswith("The cluster has 1 GPUs, but [cluster] asks for 2: 2 engines")


def test_a_worker_larger_than_every_machine_is_refused():
    message = refusal(config(workers=1, engine_cpus=4.0), [Resources(2.0, 0.0), Resources(3.0, 0.0)])
    assert "asks for 4 CPUs and 0 GPUs on one machine, but the largest of the 2 has 3 and 0" in message


def test_a_gpu_device_needs_a_share_of_a_gpu():
    assert "cluster.engine_gpus = 0. Set it to 1" in refusal(config(GPU), [Resources(8.0, 1.0)])
    run = config(GPU, engine_gpus=0.5)
    assert "cluster.learner_gpus = 0. Set it to 1" in refusal(run, [Resources(8.0, 1.0)], learners=1)


def test_parts_of_a_gpu_may_not_be_separate():
    message = refusal(config(workers=1, engine_gpus=0.5, learner_gpus=0.5), [Resources(8.0, 2.0)], learners=1)
    assert message.startswith("cluster.engine_gpus = 0.5 with cluster.placement = 'separate'")
    assert "Set 2" in refusal(config(engine_gpus=2.5), [Resources(8.0, 8.0)])


def test_separate_bundles():
    run = config(workers=2, engine_gpus=1.0, learner_gpus=2.0)
    assert assign_bundles(run, 1) == (
        [Resources(1.0, 1.0), Resources(1.0, 1.0), Resources(1.0, 2.0)],
        {"worker": (0, 1), "learner": (2,)},
    )
    assert assign_bundles(config(), 1) == ([], {})


def test_shared_bundles_hold_one_worker_of_each_kind():
    run = config(workers=4, engines=3, engine_gpus=0.5, learner_gpus=0.5, placement="shared")
    assert assign_bundles(run, 2) == (
        [Resources(3.0, 1.5), Resources(2.0, 1.0)],
        {"engine": (0, 1, 0), "learner": (0, 1)},
    )
    message = refusal(run, [Resources(32.0, 8.0)], learners=2)
    assert (
        "2 engines and 1 learner would take 1.5 of one GPU. Set engine_gpus and learner_gpus to 0.333 or less"
        in message
    )
    check_cluster(run, 3, [Resources(32.0, 3.0)])
