"""Learning through Tinker's own client: the gradients, a whole run, and servers that fail; each in a second process.

The server is ``support.learning.tinker_server``, which speaks the API's wire with the project's learner behind it. It
gets hostile requests too, with little memory: a sentence each, and it stays up. Hostile answers have tests in
``tests/league/training/learning/test_tinker_answers.py``.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load, load_file

pytest.importorskip("tinker", reason="make test-outward installs it")

from support.learning.waist_cases import OBJECTIVES, batch_of
from support.matches.kuhn import kuhn_pocket
from support.models.torch_trainer import TorchTrainer
from tinker.proto import tinker_public_pb2 as wire

from arena.lm.language_model import LanguageModel
from arena.lm.lora import Adapters, AdapterShape
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from league.cli import main
from league.config.load import validate
from league.training.interfaces import LearnerLost
from league.training.learning import tinker_trainer
from league.training.learning.tinker_trainer import TinkerTrainer
from learners.losses.batch_loss import BatchLoss
from learners.metric_sums import MetricSums
from learners.update.policy import Policy
from learners.waist import AskedReply, Waist

RANK, ALPHA = 4, 8.0
RUN = """
iterations = 20
snapshot_every = 20
checkpoints = 20
threads = 1
games.kuhn_poker.matches = 12
roles = { reply = "free", on_illegal = "forfeit", max_reply_tokens = 6, wording = "brief" }
model = { source = "BASE" }
policies.main = { weights = "lora", rank = 4, alpha = 8.0 }
objective = { entropy = 0.0, kl_old = 0.1, magnet = 0.05, kl_reference = 0.02 }
optimizer = { learning_rate = 1e-2, inner_steps = 2, weight_decay = 0.01 }
evaluation = { exact = false, matches = 4 }
alarms.stop = []
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tinker") / "base"
    kuhn_pocket(sharpness=1.0).save(folder)
    return folder


@contextlib.contextmanager
def serving(base, *options):
    """Run a server in its own process; give it and its address."""
    root = Path(__file__).parents[2]
    words = [sys.executable, "-m", "support.learning.tinker_server", str(base), "--name", "small/base"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "tests"), *sys.path])}
    with subprocess.Popen([*words, "--alpha", "8", *options], stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            yield process, f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("TINKER_API_KEY", "tml-of-no-account")
    monkeypatch.setenv("TINKER_TELEMETRY", "0")
    monkeypatch.setattr(tinker_trainer, "PROBE", 0.2)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the server's: sums of several threads have other bits
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def server(base):
    with serving(base) as (_, url):
        yield url


def trainer_at(url, base="small/base", seconds=60.0, alpha=ALPHA, seed=0, run="runs/this"):
    config = validate(
        {
            "games": {"kuhn_poker": {}},
            "seed": seed,
            "policies": {"main": {"weights": "lora", "rank": RANK, "alpha": alpha}},
            "trainer": {"tinker": {"url": url, "base": base, "seconds": seconds}},
        }
    )
    return TinkerTrainer(SimpleNamespace(config=config, run_dir=Path(run)), "main", config.trainer.tinker)


def here(base, tmp_path, seed=0):
    """Return the trainer that the server has, in this process."""
    lm = Adapters(LanguageModel.load(base), "").add(AdapterShape(RANK, ALPHA), derive_seed(seed, "adapter", "main"))
    return TorchTrainer(Policy("main", lm, weight_decay=0.0, magnet=False), tmp_path)


def learn(trainer, lm, name):
    """Pass an objective's slopes to a trainer, twice, with a step between."""
    waist = Waist(trainer)
    losses = BatchLoss(
        lm, kuhn_pocket(3), batch_of(name), OBJECTIVES[name], max_tokens=8192, reference=kuhn_pocket(2), waist=waist
    )
    for number in range(2):
        if (scores := losses.score()) is not None:
            losses.weigh(scores)
        for loss in losses.losses(0, MetricSums()):
            loss.backward()
        if not number:
            waist.clip(1.0)
            waist.step(0.05)
    trainer.accumulate(waist._replies, waist._slopes)


def gradient_there(trainer, url):
    with urllib.request.urlopen(f"{url}/gradient/{trainer._client.model_id}") as answer:
        return load(answer.read())


@pytest.mark.thorough
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_gradient_through_the_door_is_the_one_in_process(server, base, tmp_path, name):
    there, inside = trainer_at(server), here(base, tmp_path)
    for trainer in (there, inside):
        learn(trainer, inside.policy.lm, name)
    found = gradient_there(there, server)
    same = {part: weight.grad for part, weight in inside.policy.parameters.items()}
    assert all(torch.equal(found[part], grad) for part, grad in same.items()), "bit for bit"
    assert all(torch.equal(weight, inside.export()[part]) for part, weight in there.export().items())

    lm = inside.policy.lm  # which has taken the step
    inside.policy.clear_gradients()
    initial = here(base, tmp_path).policy.lm
    plain = BatchLoss(lm, kuhn_pocket(3), batch_of(name), OBJECTIVES[name], max_tokens=8192, reference=kuhn_pocket(2))
    with torch.no_grad():  # pi_old is of the weights before the step
        stepped = {part: weight.clone() for part, weight in lm.parameters().items()}
        for part, weight in lm.parameters().items():
            weight.copy_(initial.parameters()[part])
        if name in {"kto", "dmpo"}:
            plain.score()
        plain.record_old(MetricSums())
        for part, weight in lm.parameters().items():
            weight.copy_(stepped[part])
    if (scores := plain.score()) is not None:
        plain.weigh(scores)
    for loss in plain.losses(0, MetricSums()):
        loss.backward()
    expected = torch.cat([weight.grad.flatten() for weight in inside.policy.parameters.values()])
    door = torch.cat([found[part].flatten() for part in inside.policy.parameters])
    assert float(expected.norm()) > 1e-3
    assert float((door - expected).norm()) <= 1e-6 * float(expected.norm())


@pytest.mark.thorough
def test_two_policies_are_two_tenants_and_a_state_is_loaded_with_its_optimiser(server, base, tmp_path):
    first, second = trainer_at(server), trainer_at(server, seed=1)
    inside = here(base, tmp_path)
    lm = inside.policy.lm
    for trainer in (first, second, inside):
        learn(trainer, lm, "ppo")
        trainer.step(0.01, 1.0)
    assert not all(torch.equal(weight, second.export()[name]) for name, weight in first.export().items())
    again = trainer_at(server)
    again.load(first.save("kept"))
    for trainer in (first, again, inside):
        learn(trainer, lm, "ppo")
    for other in (again, inside):
        assert all(torch.equal(weight, other.export()[name]) for name, weight in first.export().items())


def states(url):
    with urllib.request.urlopen(f"{url}/states") as answer:
        return json.loads(answer.read())


@pytest.mark.thorough
def test_states_are_deleted_that_no_checkpoint_names(base, tmp_path):
    with serving(base) as (_, url):
        trainer, other = trainer_at(url, run=tmp_path / "a"), trainer_at(url, run=tmp_path / "b")
        saved = [trainer.save(f"main-{number}") for number in range(3)]
        strange = other.save("main-0")
        assert sorted(states(url)) == sorted([*saved, strange])
        trainer.keep_only({saved[2], strange})
        assert sorted(states(url)) == sorted([saved[2], strange])
        trainer.keep_only({saved[2]})
        assert strange in states(url), "another run's"
        shutil.copytree(tmp_path / "b", tmp_path / "copy of b")
        trainer_at(url, run=tmp_path / "copy of b").keep_only(set())
        assert strange in states(url), "a copy does not take from what it was copied from"
        trainer_at(url, run=tmp_path / "b").keep_only(set())  # of a run that goes on, in another process
        assert states(url) == [saved[2]]
        again = trainer.save("main-2")
        assert again == saved[2]
        trainer.keep_only(set())
        assert states(url) == []
        trainer.keep_only(set())
    trainer_at(url, run=tmp_path / "a").keep_only(set())  # nobody is there, and nothing is to be done
    with serving(base, "--fault", "never deletes") as (_, url):
        trainer = trainer_at(url, run=tmp_path / "c")
        first = trainer.save("main-0")
        trainer.keep_only(set())
        assert (states(url), trainer._kept()) == ([first], []), "it is left to expire"
        second = trainer.save("main-1")
    trainer.keep_only(set())
    assert trainer._kept() == [second], "the service may come back"


@pytest.mark.thorough
def test_a_run_keeps_the_states_of_its_checkpoints_at_the_service(playing_base, tmp_path):
    with serving(playing_base) as (_, url):
        door = {"kind": "tinker", "tinker.url": url, "tinker.base": "small/base"}
        words = [word for key, value in door.items() for word in ("--set", f"trainer.{key}={value}")]
        text = RUN.replace("BASE", str(playing_base)).replace("iterations = 20", "iterations = 4")
        (tmp_path / "run.toml").write_text(text.replace("checkpoints = 20", "checkpoints = 2"))
        run = tmp_path / "run"
        assert main(["train", str(tmp_path / "run.toml"), "--run-dir", str(run), *words]) == 0

        def named():
            files = (run / "state").glob("iteration-*/main.safetensors")
            return {bytes(load_file(path)["trainer"].tolist()).decode() for path in files}

        assert len(named()) == 2
        assert set(states(url)) == named()
        assert main(["train", "--resume", "--from", "3", "--run-dir", str(run)]) == 0
        aside = {bytes(load_file(p)["trainer"].tolist()).decode() for p in run.glob("set_aside/**/main.safetensors")}
        assert set(states(url)) == named() | aside


@pytest.fixture(scope="module")
def playing_base(tmp_path_factory):
    """Return a base that has learned what a legal reply looks like: a run's, whose adapters share it."""
    run = tmp_path_factory.mktemp("tinker") / "run"
    changes = {"policies.main.weights": "lora", "iterations": 1, "snapshot_every": 1, "games.kuhn_poker.matches": 4}
    changes |= {"model.hidden_size": 32, "model.layers": 2, "model.intermediate_size": 64, "evaluation.exact": "false"}
    changes |= {"cold_start.steps": 300, "cold_start.matches": 200, "evaluation.matches": 4, "threads": 1}
    words = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    assert main(["train", "pocket-free", "--run-dir", str(run), *words]) == 0
    return run / "base"


def trained(tmp_path, base, name, *words):
    (tmp_path / "run.toml").write_text(RUN.replace("BASE", str(base)))
    assert main(["train", str(tmp_path / "run.toml"), "--run-dir", str(tmp_path / name), *words]) == 0
    return load_file(tmp_path / name / "state" / "iteration-000020" / "main.safetensors")


@pytest.mark.slow
def test_a_run_of_20_iterations_through_the_door_ends_in_the_same_weights(playing_base, tmp_path):
    with serving(playing_base) as (_, server):
        compare_runs(server, playing_base, tmp_path)


def compare_runs(server, base, tmp_path):
    door = {"kind": "tinker", "tinker.url": server, "tinker.base": "small/base"}
    words = [word for key, value in door.items() for word in ("--set", f"trainer.{key}={value}")]
    inside, there = (
        trained(tmp_path, base, "here", "--seed", "3"),
        trained(tmp_path, base, "there", "--seed", "3", *words),
    )
    weights = [name for name in inside if name.startswith("weights/")]
    learned = [float(inside[name].abs().max()) for name in weights if ".lora_B." in name]  # which begin at 0
    assert min(learned) > 0.01
    for name in weights:
        torch.testing.assert_close(there[name], inside[name], atol=1e-6, rtol=0.0)
    logs = [(tmp_path / run / "metrics.jsonl").read_text().splitlines() for run in ("here", "there")]
    told = [[json.loads(line) for line in log] for log in logs]
    for name in ("gap", "main/grad_norm", "main/kl_old", "main/magnet_kl", "main/reference_kl"):
        values = [[line[name] for line in log if name in line] for log in told]
        assert len(values[0]) == 20
        assert values[1] == pytest.approx(values[0], rel=1e-3, abs=1e-6)

    assert main(["train", "--resume", "--from", "15", "--run-dir", str(tmp_path / "there")]) == 0
    again = load_file(tmp_path / "there" / "state" / "iteration-000020" / "main.safetensors")
    assert all(torch.equal(again[name], there[name]) for name in weights), "a resumed run learns the same"


ASKED = [AskedReply((1, 2, 3), (4, 5)), AskedReply((1, 2), (7,))]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("hangs", r"should score replies for policy 'main', but has not answered for 2 seconds"),
        (
            "dies",
            r"should score replies for .*, but has ended\. Start it again, .* league train --resume --run-dir runs",
        ),
        ("rubbish", r"should score replies for policy 'main', but answered: Proto deserialization failed"),
        ("fewer", r"scored 1 of 2 replies"),
        ("nan", r"gave nan as a log-prob, which is impossible"),
    ],
)
def test_a_server_that_fails_is_told_in_a_sentence(base, fault, said):
    with serving(base, "--fault", fault) as (_, url):
        trainer = trainer_at(url, seconds=2.0 if fault == "hangs" else 60.0)
        if fault == "hangs":  # making a tenant may take longer
            trainer._settings = trainer._settings.model_copy(update={"seconds": 60.0})
            trainer.export()
            trainer._settings = trainer._settings.model_copy(update={"seconds": 2.0})
        with pytest.raises(LearnerLost, match=said):
            trainer.score(ASKED)


@pytest.mark.thorough
def test_another_base_or_scale_is_refused(server, base):
    with pytest.raises(LearnerLost, match=r"make an adapter on other/base .*answered: .*no base other/base here"):
        trainer_at(server, base="other/base").score(ASKED)
    with serving(base, "--fault", "base") as (_, url), pytest.raises(UsageError, match=r"trains another/base, but the"):
        trainer_at(url).score(ASKED)
    with pytest.raises(UsageError, match=r"rank 4 and alpha 8, but .* alpha 16\. Set .*alpha = 8"):
        trainer_at(server, alpha=16.0).export()


@pytest.mark.thorough
def test_a_run_with_nobody_behind_the_door_says_so(base, tmp_path, capsys, monkeypatch):
    (tmp_path / "run.toml").write_text(RUN.replace("BASE", str(base)))
    words = ["train", str(tmp_path / "run.toml"), "--run-dir", str(tmp_path / "run"), "--set", "trainer.kind=tinker"]
    assert main([*words, "--set", "trainer.tinker.url=http://127.0.0.1:9"]) == 2
    assert re.search(r"Nobody answers at trainer\.tinker\.url = 'http://127\.0\.0\.1:9'", capsys.readouterr().err)
    monkeypatch.delenv("TINKER_API_KEY")
    assert main([*words, "--set", "trainer.tinker.url=http://127.0.0.1:9"]) == 2
    assert "needs a key in the environment variable TINKER_API_KEY" in capsys.readouterr().err


LITTLE = "2000"  # MiB that the server may take beside what it begins with


@pytest.fixture(scope="module")
def little(base):
    with serving(base, "--memory", LITTLE) as (process, url):
        yield process, url


def posted(url, route, body, headers=None):
    """Return the status and the answer to a request, whose body is sent as it is."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.putrequest("POST", f"/api/v1/{route}")
    for name, value in ({"Content-Length": str(len(body))} if headers is None else headers).items():
        connection.putheader(name, value)
    connection.endheaders(body)
    if headers:
        connection.sock.shutdown(socket.SHUT_WR)  # there will be no more
    answer = connection.getresponse()
    return answer.status, answer.read()


def proto(model, tokens=(1, 2, 3), targets=(2, 3, 4), weights=(0.0, 1.0, 1.0), spoil=lambda datum: None):
    request = wire.ForwardBackwardRequest(model_id=model, forward_only=False)
    datum = request.data.add()
    datum.model_input.add().encoded_text.tokens = np.array(tokens, np.int32).tobytes()
    datum.loss_fn_inputs["target_tokens"].dense = np.array(targets, np.int64).tobytes()
    datum.loss_fn_inputs["weights"].dense = np.array(weights, np.float32).tobytes()
    spoil(datum)
    return request.SerializeToString()


def cut(datum):
    datum.model_input[0].encoded_text.tokens = b"\1\0\0"


MANY = range(1 << 17)
PROTOS = {
    "fewer weights": {"weights": (1.0,)},
    "more targets": {"targets": (2, 3, 4, 5)},
    "nothing": {"tokens": (), "targets": (), "weights": ()},
    "other targets": {"targets": (3, 3, 4)},
    "a token below 0": {"tokens": (-1, 2, 3)},
    "a token beyond": {"targets": (2, 3, 10**9)},
    "a target of 64 bits": {"targets": (2, 3, 2**62)},
    "nan": {"weights": (0.0, float("nan"), 1.0)},
    "inf": {"weights": (0.0, float("inf"), 1.0)},
    "too long": {"tokens": [1] * len(MANY), "targets": [1] * len(MANY), "weights": [1.0] * len(MANY)},
    "half a number": {"spoil": cut},
}
DEEP = b"[" * 1_000_000
PATHS = ("../../x", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "x" * 101, "a\n", 5, None, ["x"], {"a": 1})


def sentence(answer):
    """Return the sentence of a refusal."""
    status, body = answer
    assert status == 400, answer
    said = json.loads(body)["message"]
    assert said.endswith("."), said
    assert 10 < len(said) < 400, said
    return said


@pytest.mark.thorough
def test_hostile_requests_are_told_and_change_nothing(little, tmp_path):
    process, url = little
    trainer = trainer_at(url, run=tmp_path)
    scores, weights = trainer.score(ASKED), trainer.export()
    model = trainer._client.model_id
    for what, spoilt in PROTOS.items():
        said = sentence(posted(url, "forward_backward", proto(model, **spoilt)))
        assert what != "nan" or said == "A weight is not finite."
    sentence(posted(url, "forward_backward", proto("another")))
    for body in (b"\x07rubbish", proto(model)[:-5], DEEP, b"\xff" * (1 << 20)):
        sentence(posted(url, "forward_backward", body))
    adam = {"beta1": 0.9, "beta2": 0.9, "eps": 1e-8, "weight_decay": 0.0, "learning_rate": 0.1, "grad_clip_norm": 1.0}
    for body in (b"{", b"[]", b"5", DEEP, b'{"a":' * 100_000, b"\xff\xfe", b"{}", b'{"model_id": NaN}'):
        sentence(posted(url, "optim_step", body))
    for number in ("NaN", "Infinity", "1e999", '"x"', "null", "[1]", "true"):
        text = json.dumps({"model_id": model, "adam_params": adam}).replace("0.1,", f"{number},")
        sentence(posted(url, "optim_step", text.encode()))
    for path in PATHS:
        for route in ("save_weights", "save_weights_external", "load_weights"):
            data = {"model_id": model, "path": path, "session_id": "s1", "model_seq_id": 7}
            sentence(posted(url, route, json.dumps(data).encode()))
    sentence(posted(url, "load_weights", json.dumps({**data, "path": f"tinker://{model}/weights/../../x"}).encode()))
    good = {"session_id": "s1", "model_seq_id": 8, "base_model": "small/base", "lora_config": {"rank": 4, "seed": 0}}
    for change in (
        {"session_id": "../.."},
        {"session_id": ["s1"]},
        {"model_seq_id": "../x"},
        {"model_seq_id": -1},
        {"lora_config": {"rank": 10**12, "seed": 0}},
        {"lora_config": {"rank": 0, "seed": 0}},
        {"lora_config": {"rank": 4, "seed": -1}},
        {"lora_config": {"rank": 4.5, "seed": 0}},
        {"lora_config": 4},
    ):
        sentence(posted(url, "create_model", json.dumps(good | change).encode()))
    sentence(posted(url, "retrieve_future", b'{"request_id": "999999"}'))
    for told, body in (("1000000000000", b"x"), ("16777217", b"x"), ("-5", b"x"), ("x", b"x"), ("9" * 5000, b"x")):
        sentence(posted(url, "optim_step", body, {"Content-Length": told}))
    said = sentence(posted(url, "optim_step", b"{}", {"Content-Length": "1000000"}))
    assert said == "The body ended after 2 of 1000000 bytes."
    sentence(posted(url, "optim_step", b"5\r\n", {"Transfer-Encoding": "chunked"}))
    for path in ("/files/x/y/z", f"/files/{model}/main-000001/../../x", "/gradient/x", "/files/" + "a/" * 9000):
        with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(url + path):
            pass
        assert refused.value.code in (400, 414)
    assert process.poll() is None
    with urllib.request.urlopen(f"{url}/states") as answer:
        assert json.loads(answer.read()) == [], "nothing was saved anywhere"
    after = trainer.score(ASKED)
    assert all(torch.equal(a, b) for a, b in zip(after, scores, strict=True))
    assert all(torch.equal(weight, weights[name]) for name, weight in trainer.export().items())


@pytest.mark.thorough
def test_a_body_without_end_leaves_the_server_to_others(little):
    """Thirty connections that say a length and send nothing more: the next request is answered at once."""
    _, url = little
    host, port = url.removeprefix("http://").split(":")
    held = []
    for _ in range(30):
        one = socket.create_connection((host, int(port)))
        one.sendall(b"POST /api/v1/optim_step HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{")
        held.append(one)
    assert "no 'model_id'" in sentence(posted(url, "optim_step", b"{}"))
    for one in held:
        one.close()
