"""A small server that speaks the Tinker API's wire, with the project's own learner behind it; a process of its own.

It takes one request at a time, and its futures are done when it names them. ``--fault`` lets it misbehave. What it
cannot do it says in a sentence, with status 400, and stays up: nothing of such a request is done.
"""

import argparse
import json
import math
import os
import re
import resource
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock

import numpy as np
import torch
from google.protobuf.message import DecodeError
from safetensors.torch import save
from tinker.proto import tinker_public_pb2 as wire

from arena.lm.language_model import LanguageModel
from arena.lm.lora import Adapters, AdapterShape
from games.common.errors import UsageError
from games.common.files import parse_json
from learners.update.policy import Policy
from learners.waist import AskedReply
from support.models.torch_trainer import TorchTrainer

PROTO = "application/x-protobuf"
FILES = ("adapter_config.json", "adapter_model.safetensors")
MOST_BYTES = 1 << 24  # of a request
MOST_TOKENS, MOST_RANK, MOST_NUMBER = 1 << 16, 64, 1e4  # of a request's texts; of an adapter; of AdamW's settings
PATIENCE = 20.0  # seconds that a body may pause
PARAMS = ("beta1", "beta2", "eps", "weight_decay", "learning_rate", "grad_clip_norm")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}")


class Refused(ValueError):
    """What a request cannot have, in a sentence."""


def checked(value, kind, what, least=-math.inf, most=math.inf):
    """Return a value of a request that is of this kind, and between bounds."""
    if not isinstance(value, kind) or isinstance(value, bool) or not least <= value <= most:
        raise Refused(f"{what} is {str(value)[:80]!r}, but must be a number from {least:g} to {most:g}.")
    return value


def named(value, what):
    """Return a name that is no path."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise Refused(f"{what} is {str(value)[:80]!r}, but must be up to 100 letters, digits and any of _.:- after.")
    return value


def field(data, key):
    """Return what a request says under a key."""
    if not isinstance(data, dict) or key not in data:
        raise Refused(f"The request has no {key!r}.")
    return data[key]


def numbers(content, kind, what):
    """Return an array of a request's bytes."""
    if len(content) % np.dtype(kind).itemsize:
        raise Refused(f"{what} has {len(content)} bytes, which is no whole number of {np.dtype(kind).name}.")
    return np.frombuffer(content, kind).copy()


class Tenants:
    """The adapters on one base, by the ids of their models."""

    def __init__(self, base, name, alpha, max_tokens=8192):
        self.name, self.alpha, self.max_tokens = name, alpha, max_tokens
        self.adapters = Adapters(LanguageModel.load(base), name)
        self.folder = Path(mkdtemp())
        self.trainers, self.begins, self.exports = {}, {}, {}

    def create(self, model, rank, seed):
        lm = self.adapters.add(AdapterShape(checked(rank, int, "The rank", 1, MOST_RANK), self.alpha), seed)
        policy = Policy(model, lm, weight_decay=0.0, magnet=False)
        self.trainers[model] = TorchTrainer(policy, self.folder / "states" / model.replace(":", "_"), self.max_tokens)

    def trainer(self, model):
        if model not in self.trainers:
            raise Refused(f"There is no model {str(model)[:80]!r} here.")
        return self.trainers[model]

    def texts(self, request):
        """Return each datum's tokens [T + 1] and the weights of its targets [T], all of which can be learned from."""
        rows = []
        for datum in request.data:
            text = [n for c in datum.model_input for n in numbers(c.encoded_text.tokens, np.int32, "A text").tolist()]
            targets = numbers(datum.loss_fn_inputs["target_tokens"].dense, np.int64, "target_tokens").tolist()
            weights = numbers(datum.loss_fn_inputs["weights"].dense, np.float32, "weights")
            if not text or not len(text) == len(targets) == len(weights):
                lengths = f"{len(text)}, {len(targets)} and {len(weights)}"
                raise Refused(
                    f"A text, its targets and weights have {lengths} places, but need as many, and one at least."
                )
            if targets[:-1] != text[1:]:
                raise Refused("A target is not the next token.")
            vocabulary = self.adapters.base.model.config.vocab_size
            if not 0 <= min(whole := (text[0], *targets)) <= max(whole) < vocabulary:
                raise Refused(f"A token is below 0 or not below {vocabulary}, the size of the vocabulary.")
            if not np.isfinite(weights).all():
                raise Refused("A weight is not finite.")
            rows.append((whole, torch.from_numpy(weights)))
        if not 0 < sum(len(whole) for whole, _ in rows) <= MOST_TOKENS:
            raise Refused(f"The request has no token, or more than {MOST_TOKENS}.")
        return rows

    def forward_backward(self, request):
        """Return the log-probs of every position, 0 before the first that ever had a weight."""
        trainer = self.trainer(request.model_id)
        asked, weights, lengths = [], [], []
        for whole, row in self.texts(request):
            used = row.nonzero()
            begin = self.begins.setdefault(whole, int(used[0]) if len(used) else 0)
            asked.append(AskedReply(whole[: begin + 1], whole[begin + 1 :]))
            weights.append(row[begin:])
            lengths.append(len(row))
        if request.forward_only:
            rows = trainer.score(asked)
        else:
            rows = [torch.zeros(len(one.reply)) for one in asked]
            trainer.accumulate(asked, [-row for row in weights])
        rows = [torch.cat([torch.zeros(n - len(row)), row]) for n, row in zip(lengths, rows, strict=True)]
        answer = wire.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord")
        answer.metrics["loss:sum"] = 0.0
        record = answer.loss_fn_outputs.add(num_datums=len(rows))
        field = record.fields["logprobs"]
        field.dtype = wire.DTYPE_FLOAT32
        field.data = b"".join(row.numpy().astype(np.float32).tobytes() for row in rows)
        field.offsets = np.cumsum([0, *(4 * len(row) for row in rows)], dtype=np.int64).tobytes()
        return answer.SerializeToString()

    def optim_step(self, model, params):
        trainer = self.trainer(model)
        params = {
            name: float(checked(field(params, name), int | float, name, -MOST_NUMBER, MOST_NUMBER)) for name in PARAMS
        }
        for group in trainer.policy.optimizer.param_groups:
            group |= {"betas": (params["beta1"], params["beta2"]), "eps": params["eps"]}
            group["weight_decay"] = params["weight_decay"]
        return {"metrics": {"unclipped_grad_norm": trainer.step(params["learning_rate"], params["grad_clip_norm"])}}

    def export(self, model, name):
        folder = self.folder / "exports" / f"{len(self.exports)}"
        self.trainer(model).policy.lm.save(folder)
        self.exports[f"{model}/{name}"] = folder
        return f"tinker://{model}/external_weights/{name}"


class Service:
    """The routes. A request's answer is kept under its id until it is asked for."""

    def __init__(self, tenants, fault="", after=0):
        self.tenants, self.fault, self.after = tenants, fault, after
        self.lock, self.done, self.sessions = Lock(), {}, 0

    def answer(self, path, body, host):
        """Return what a request is answered: a dictionary, or bytes of the proto."""
        route = path.removeprefix("/api/v1/")
        if route == "forward_backward":
            try:
                request = wire.ForwardBackwardRequest.FromString(body)
            except DecodeError as error:
                raise Refused(f"The body is no ForwardBackwardRequest: {str(error)[:80]}.") from error
            self._misbehave()
            return self._future(self.tenants.forward_backward(request))
        if route.endswith("external_weights_urls"):
            parts = route.split("/")
            if len(parts) < 6 or f"{parts[1]}/{parts[4]}" not in self.tenants.exports:
                raise Refused("There are no such weights here.")
            model, name = parts[1], parts[4]
            files = {file: f"http://{host}/files/{model}/{name}/{file}" for file in FILES}
            return {"urls": files, "expires": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
        routes = {
            "retrieve_future": self._retrieved,
            "create_session": self._session,
            "create_model": self._created,
            "get_info": self._info,
            "optim_step": lambda data: self._future(
                self.tenants.optim_step(field(data, "model_id"), field(data, "adam_params"))
            ),
            "save_weights": self._saved,
            "load_weights": self._loaded,
            "save_weights_external": self._exported,
            "telemetry": lambda _: {"status": "accepted"},
        }
        try:
            data = parse_json(body.decode()) if body else {}
        except ValueError as error:
            raise Refused(f"The body is no JSON: {str(error)[:80]}.") from error
        if not isinstance(data, dict):
            raise Refused("The body is no object of JSON.")
        return routes.get(route, lambda _: {})(data)

    def _retrieved(self, data):
        number = field(data, "request_id")
        if not isinstance(number, str) or number not in self.done:
            raise Refused(f"There is no request {str(number)[:80]!r} here.")
        return self.done[number]

    def _exported(self, data):
        return self._future({"path": self.tenants.export(field(data, "model_id"), named(field(data, "path"), "path"))})

    def _model(self, data):
        """Return the id of a new model, in a session of this server."""
        session, number = field(data, "session_id"), checked(field(data, "model_seq_id"), int, "model_seq_id", 0, 1e6)
        if session not in [f"s{one + 1}" for one in range(self.sessions)]:
            raise Refused(f"There is no session {str(session)[:80]!r} here.")
        return f"{session}:train:{number}"

    def _session(self, _):
        self.sessions += 1
        return {"session_id": f"s{self.sessions}"}

    def _info(self, data):
        name = "another/base" if self.fault == "base" else self.tenants.name
        return {"model_data": {"model_name": name}, "model_id": data["model_id"], "is_lora": True}

    def _saved(self, data):
        model = field(data, "model_id")
        saved = self.tenants.trainer(model).save(named(field(data, "path"), "path"))
        return self._future({"path": f"tinker://{model}/weights/{Path(saved).name}"})

    def _created(self, data):
        if field(data, "base_model") != self.tenants.name:
            return self._future({"error": f"no base {str(data['base_model'])[:80]} here", "category": "user"})
        model, shape = self._model(data), field(data, "lora_config")
        seed = checked(field(shape, "seed"), int, "The seed", 0, 2**63 - 1)
        self.tenants.create(model, field(shape, "rank"), seed)
        return self._future({"model_id": model})

    def deleted(self, path):
        """Delete a state; return the status."""
        if self.fault == "never deletes":
            return 405
        parts = path.split("/")
        if len(parts) != 8 or not NAME.fullmatch(parts[7]):
            return 404
        model, name = parts[4], parts[7]
        trainer = self.tenants.trainers.get(model)
        file = trainer._folder / name if trainer is not None else None
        if file is None or not file.is_file():
            return 404
        file.unlink()
        return 204

    def states(self):
        """Return the states that are kept, by their addresses."""
        return [
            f"tinker://{model}/weights/{file.name}"
            for model, trainer in self.tenants.trainers.items()
            for file in sorted(trainer._folder.glob("*.safetensors"))
        ]

    def _loaded(self, data):
        path = field(data, "path")
        if path not in self.states():
            raise Refused(f"There is no state {str(path)[:80]!r} here.")
        source, _, file = path.removeprefix("tinker://").split("/")
        model, found = self._model(data), self.tenants.trainer(source)
        self.tenants.create(model, found.policy.lm.adapters._shapes[found.policy.lm.adapter].rank, 0)
        self.tenants.trainers[model].load(str(found._folder / file))
        return self._future({"path": path, "model_id": model})

    def _future(self, result):
        number = str(len(self.done))
        self.done[number] = result
        return {"request_id": number}

    def _misbehave(self):
        self.after -= 1
        if self.after >= 0:
            return
        if self.fault == "hangs":
            time.sleep(3600)
        if self.fault == "dies":
            os._exit(1)

    def spoilt(self, answer):
        if self.fault == "rubbish" and isinstance(answer, bytes):
            return b"\x07rubbish"
        if self.fault == "fewer" and isinstance(answer, bytes):
            output = wire.ForwardBackwardOutput.FromString(answer)
            output.loss_fn_outputs[0].num_datums -= 1
            return output.SerializeToString()
        if self.fault == "nan" and isinstance(answer, bytes):
            output = wire.ForwardBackwardOutput.FromString(answer)
            field = output.loss_fn_outputs[0].fields["logprobs"]
            field.data = np.full(len(field.data) // 4, np.nan, np.float32).tobytes()
            return output.SerializeToString()
        return answer


class Handler(BaseHTTPRequestHandler):
    """Takes the requests of a service, which a subclass names."""

    service = None
    protocol_version = "HTTP/1.1"

    timeout = PATIENCE

    def do_POST(self):
        try:
            body = self._body()
            with self.service.lock:
                answer = self.service.spoilt(self.service.answer(self.path, body, self.headers["Host"]))
        except (Refused, UsageError) as refused:
            self._refuse(str(refused))
        except MemoryError:
            self._refuse("The request needs more memory than this server has.")
        except RecursionError:
            self._refuse("The request is nested too deeply.")
        else:
            if isinstance(answer, bytes):
                self._send(answer, PROTO)
            else:
                self._send(json.dumps(answer).encode(), "application/json")

    def _body(self):
        """Return the body of a request, whose length is said and bounded."""
        told = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not told.isdecimal():
            self.close_connection = True
            raise Refused("The length of the body is not said (Content-Length).")
        if len(told) > 20 or int(told) > MOST_BYTES:
            self.close_connection = True
            raise Refused(f"The body has {told[:20]} bytes, but may have {MOST_BYTES}.")
        body = bytearray()
        with suppress(TimeoutError):
            while len(body) < int(told) and (piece := self.rfile.read1(int(told) - len(body))):
                body += piece
        if len(body) < int(told):
            self.close_connection = True
            raise Refused(f"The body ended after {len(body)} of {told} bytes.")
        return bytes(body)

    def _refuse(self, sentence):
        self._send(json.dumps({"message": sentence}).encode(), "application/json", 400)

    def do_GET(self):
        try:
            self._get()
        except (Refused, KeyError, ValueError, IndexError):
            self._refuse("There is nothing at this address.")

    def _get(self):
        if self.path.startswith("/files/"):
            _, _, model, name, file = self.path.split("/")
            if file not in FILES:
                raise Refused("There is no such file.")
            folder = self.service.tenants.exports[f"{model}/{name}"]
            self._send((folder / file).read_bytes(), "application/octet-stream")
            return
        if self.path == "/states":  # no part of the API
            self._send(json.dumps(self.service.states()).encode(), "application/json")
            return
        if self.path.startswith("/gradient/"):  # no part of the API
            weights = self.service.tenants.trainers[self.path.split("/")[2]].policy.parameters
            self._send(save({name: weight.grad for name, weight in weights.items()}), "application/octet-stream")
            return
        with self.service.lock if "healthz" not in self.path else Lock():
            answer = self.service.answer(self.path, b"", self.headers["Host"])
        self._send(json.dumps(answer).encode(), "application/json")

    def do_DELETE(self):
        with self.service.lock:
            status = self.service.deleted(self.path)
        self._send(b"" if status == 204 else b"{}", "application/json", status)

    def _send(self, content, kind, status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("base")
    parser.add_argument("--name", required=True)
    parser.add_argument("--alpha", type=float, default=16.0)
    parser.add_argument("--fault", default="")
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--memory", type=int, default=0, help="MiB that it may take beside what it begins with")
    options = parser.parse_args()
    torch.set_num_threads(1)
    service = Service(Tenants(options.base, options.name, options.alpha), options.fault, options.after)
    if options.memory:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + (options.memory << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"service": service}))
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
