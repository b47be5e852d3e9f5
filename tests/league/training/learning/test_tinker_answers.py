"""What a trainer elsewhere may answer and this process cannot use: a sentence each, and no memory beyond bounds.

Tinker's client is made up here; ``tests/outward/test_tinker.py`` has its own.
"""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from safetensors.torch import save
from support.source import ROOT

from games.common.errors import UsageError
from league.config.load import validate
from league.training.interfaces import LearnerLost
from league.training.learning.tinker_trainer import CONFIG_FILE, WEIGHTS_FILE, TinkerTrainer
from learners.waist import AskedReply

ASKED = [AskedReply((1, 2, 3), (4, 5))]
SHAPE = {"r": 4, "lora_alpha": 8.0}


class Done:
    """A future that is done."""

    def __init__(self, answer):
        self._answer = answer

    def result(self, timeout):
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


@pytest.fixture
def trainer(monkeypatch):
    """Return a trainer whose client a test makes up."""
    client = ModuleType("tinker")
    client.TinkerError = type("TinkerError", (Exception,), {})
    client.AdamParams = SimpleNamespace
    monkeypatch.setitem(sys.modules, "tinker", client)
    config = validate(
        {
            "games": {"kuhn_poker": {}},
            "policies": {"main": {"weights": "lora", "rank": 4, "alpha": 8.0}},
            "trainer": {"tinker": {"base": "small/base", "seconds": 2.0}},
        }
    )
    one = TinkerTrainer(SimpleNamespace(config=config, run_dir=Path("runs/this")), "main", config.trainer.tinker)
    one._client = SimpleNamespace()
    return one


@contextmanager
def answering(send):
    """Serve what ``send`` writes to every request; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            with suppress(OSError):  # nobody reads on
                send(self)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/file"
        server.shutdown()


def whole(content, length=None):
    def send(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content) if length is None else length))
        handler.end_headers()
        handler.wfile.write(content)

    return send


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(1 << 16))


def dripping(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x")
        threading.Event().wait(0.05)


def no_http(handler):
    handler.wfile.write(b"\0" * 100 + b"\r\n")


@pytest.mark.parametrize(
    ("send", "said"),
    [
        (endless, r"gave a adapter_config\.json of more than 1 MiB|gave a .* of more than 1 MiB"),
        (dripping, r"did not give all of adapter_config\.json within 0\.3 seconds"),
        (no_http, r"did not give adapter_config\.json \("),
        (lambda handler: handler.send_error(500), r"did not give adapter_config\.json \(HTTP Error 500"),
    ],
)
def test_a_file_that_does_not_end_or_come_is_told(trainer, send, said):
    trainer._settings = trainer._settings.model_copy(update={"seconds": 30.0 if send is endless else 0.3})
    with answering(send) as url, pytest.raises(LearnerLost, match=said):
        trainer._download(url, CONFIG_FILE)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "/etc/passwd", "ftp://127.0.0.1/x", "data:text/plain,x", ""])
def test_a_file_elsewhere_than_on_the_web_is_not_opened(trainer, url):
    with pytest.raises(LearnerLost, match=r"which is not a web address"):
        trainer._download(url, CONFIG_FILE)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"r": 1e999, "lora_alpha": 8}',
        b'{"r": 4}',
        b"[4, 8]",
        b'{"r": [4], "lora_alpha": {}}',
        b'{"r": "4", "lora_alpha": "' + b"9" * 5000 + b'x"}',
    ],
)
def test_a_shape_that_is_none_is_told(trainer, content):
    with pytest.raises(LearnerLost, match=r"does not describe an adapter") as told:
        trainer._check_shape(content)
    assert len(str(told.value)) < 600
    trainer._check_shape(json.dumps(SHAPE).encode())


def export(trainer, monkeypatch, weights):
    """Let the service export these bytes."""
    found = {CONFIG_FILE: json.dumps(SHAPE).encode(), WEIGHTS_FILE: weights}
    rest = SimpleNamespace(get_external_weights_urls=lambda path: Done(SimpleNamespace(urls=dict.fromkeys(found, ""))))
    sys.modules["tinker"].RestClient = lambda base_url: rest
    trainer._client.save_weights_external = lambda name, ttl_seconds: Done(SimpleNamespace(path="tinker://x"))
    monkeypatch.setattr(trainer, "_download", lambda url, file: found[file])
    return trainer.export()


GOOD = save({"base_model.model.a": torch.ones(2, 2)})


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (b"", "cannot be read"),
        (GOOD[:-3], "cannot be read"),
        (b"\xff" * 8 + GOOD[8:], "cannot be read"),
        ((100_000).to_bytes(8, "little") + b"[" * 100_000, "cannot be read"),
        (save({"base_model.model.a": torch.full((2, 2), float("nan"))}), "not finite: base_model.model.a"),
        (save({"base_model.model." + "a" * 9999: torch.full((1,), float("inf"))}), "not finite"),
    ],
)
def test_weights_that_are_none_are_told(trainer, monkeypatch, weights, said):
    assert list(export(trainer, monkeypatch, GOOD)) == ["a"]
    with pytest.raises(LearnerLost, match=said) as told:
        export(trainer, monkeypatch, weights)
    assert len(str(told.value)) < 600


def row(values):
    return {"logprobs": SimpleNamespace(to_torch=lambda: torch.tensor(values))}


def unreadable(error):
    def to_torch():
        raise error

    return {"logprobs": SimpleNamespace(to_torch=to_torch)}


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (row([-1.0] * 3), "scored 3 tokens of a text of 4"),
        (row([[-1.0, -1.0, -1.0, -1.0, -1.0]]), "scored 5 tokens"),
        (row([-1.0, -1.0, -1.0, float("inf")]), "impossible"),
        (row([-1.0, -1.0, float("nan"), -1.0]), "impossible"),
        (unreadable(RuntimeError("shape '[2, 2]' is invalid for input of size 3")), "in no readable way .shape"),
        (unreadable(OverflowError("x" * 5000)), "in no readable way"),
        (unreadable(MemoryError()), "in no readable way .MemoryError"),
        ({}, "without log-probs .nothing"),
    ],
)
def test_scores_that_are_none_are_told(trainer, output, said):
    good = trainer._logprobs(SimpleNamespace(loss_fn_outputs=[row([-1.0, -2.0, -3.0, -4.0])]), ASKED)
    assert good[0].tolist() == [-3.0, -4.0]
    with pytest.raises(LearnerLost, match=said) as told:
        trainer._logprobs(SimpleNamespace(loss_fn_outputs=[output]), ASKED)
    assert len(str(told.value)) < 600


@pytest.mark.parametrize("norm", [float("nan"), float("inf"), -1.0])
def test_a_norm_that_is_none_is_told(trainer, norm):
    trainer._client.optim_step = lambda params: Done(SimpleNamespace(metrics={"unclipped_grad_norm:mean": 2.0}))
    assert trainer.step(0.1, 1.0) == 2.0
    trainer._client.optim_step = lambda params: Done(SimpleNamespace(metrics={"unclipped_grad_norm:mean": norm}))
    with pytest.raises(LearnerLost, match=r"took a step with a gradient whose norm is"):
        trainer.step(0.1, 1.0)


@pytest.mark.parametrize("error", [RecursionError("too deep"), MemoryError(), OverflowError("x" * 5000)])
def test_an_answer_that_cannot_be_parsed_is_told(trainer, error):
    trainer._client.optim_step = lambda params: Done(error)
    with pytest.raises(LearnerLost, match=r"should take an optimiser step for policy 'main', but answered: ") as told:
        trainer.step(0.1, 1.0)
    assert len(str(told.value)) < 600


@pytest.mark.parametrize("path", ["", "x" * 1001, "tinker://x\n[run]", "\0"])
def test_an_address_of_a_state_that_is_none_is_told(trainer, path):
    trainer._client.save_state = lambda name, ttl_seconds, overwrite: Done(SimpleNamespace(path=path))
    with pytest.raises(LearnerLost, match=r"which is no address"):
        trainer.save("main-1")


@pytest.mark.parametrize("info", [None, SimpleNamespace(model_data=None)])
def test_a_base_that_is_not_told_is(trainer, info):
    trainer._client.get_info = lambda: info
    with pytest.raises(LearnerLost, match=r"should name its base for policy 'main', but answered: 'NoneType'"):
        trainer._check_base()
    trainer._client.get_info = lambda: SimpleNamespace(model_data=SimpleNamespace(model_name="another"))
    with pytest.raises(UsageError, match="trains another, but the run needs small/base"):
        trainer._check_base()


BOUNDED = """
import resource, sys
from pathlib import Path
from types import SimpleNamespace
from league.training.interfaces import LearnerLost
from league.training.learning.tinker_trainer import TinkerTrainer, WEIGHTS_FILE
from league.config.load import validate

config = validate({"games": {"kuhn_poker": {}}, "policies": {"main": {"weights": "lora"}}})
trainer = TinkerTrainer(SimpleNamespace(config=config, run_dir=Path("x")), "main", config.trainer.tinker)
most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + (200 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    trainer._download(sys.argv[1], WEIGHTS_FILE)
except LearnerLost as error:
    print(error)
"""


@pytest.mark.thorough
def test_weights_without_end_are_told_before_memory_is_out(trainer):
    with answering(endless) as url:
        words = [sys.executable, "-c", BOUNDED, url]
        ended = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=200)
    assert ended.returncode == 0, ended.stderr
    assert "did not give adapter_model.safetensors (MemoryError), for policy 'main'" in ended.stdout
