"""A small server that speaks the Tinker API's wire, with the project's own learner behind it; a process of its own.

It takes one request at a time, and its futures are done when it names them. ``--fault`` lets it misbehave.
"""

import argparse
import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock

import numpy as np
import torch
from safetensors.torch import save
from tinker.proto import tinker_public_pb2 as wire

from arena.lm.language_model import LanguageModel
from arena.lm.lora import Adapters, AdapterShape
from learners.update.policy import Policy
from learners.update.torch_trainer import TorchTrainer
from learners.waist import AskedReply

PROTO = "application/x-protobuf"
FILES = ("adapter_config.json", "adapter_model.safetensors")


class Tenants:
    """The adapters on one base, by the ids of their models."""

    def __init__(self, base, name, alpha, max_tokens=8192):
        self.name, self.alpha, self.max_tokens = name, alpha, max_tokens
        self.adapters = Adapters(LanguageModel.load(base), name)
        self.folder = Path(mkdtemp())
        self.trainers, self.begins, self.exports = {}, {}, {}

    def create(self, model, rank, seed):
        lm = self.adapters.add(AdapterShape(rank, self.alpha), seed)
        policy = Policy(model, lm, weight_decay=0.0, magnet=False)
        self.trainers[model] = TorchTrainer(policy, self.folder / "states" / model.replace(":", "_"), self.max_tokens)

    def forward_backward(self, request):
        """Return the log-probs of every position, 0 before the first that ever had a weight."""
        trainer = self.trainers[request.model_id]
        asked, weights, lengths = [], [], []
        for datum in request.data:
            text = [int(t) for chunk in datum.model_input for t in np.frombuffer(chunk.encoded_text.tokens, np.int32)]
            targets = np.frombuffer(datum.loss_fn_inputs["target_tokens"].dense, np.int64)
            row = torch.from_numpy(np.frombuffer(datum.loss_fn_inputs["weights"].dense, np.float32).copy())
            whole = (text[0], *map(int, targets))
            assert list(whole[1:-1]) == text[1:], "each target is the next token"
            used = row.nonzero()
            begin = self.begins.setdefault(whole, int(used[0]) if len(used) else 0)
            asked.append(AskedReply(whole[: begin + 1], whole[begin + 1 :]))
            weights.append(row[begin:])
            lengths.append(len(targets))
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
        trainer = self.trainers[model]
        for group in trainer.policy.optimizer.param_groups:
            group |= {"betas": (params["beta1"], params["beta2"]), "eps": params["eps"]}
            group["weight_decay"] = params["weight_decay"]
        return {"metrics": {"unclipped_grad_norm": trainer.step(params["learning_rate"], params["grad_clip_norm"])}}

    def export(self, model, name):
        folder = self.folder / "exports" / f"{len(self.exports)}"
        self.trainers[model].policy.lm.save(folder)
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
            request = wire.ForwardBackwardRequest.FromString(body)
            self._misbehave()
            return self._future(self.tenants.forward_backward(request))
        if route.endswith("external_weights_urls"):
            model, name = route.split("/")[1], route.split("/")[4]
            files = {file: f"http://{host}/files/{model}/{name}/{file}" for file in FILES}
            return {"urls": files, "expires": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
        routes = {
            "retrieve_future": lambda data: self.done[data["request_id"]],
            "create_session": self._session,
            "create_model": self._created,
            "get_info": self._info,
            "optim_step": lambda data: self._future(self.tenants.optim_step(data["model_id"], data["adam_params"])),
            "save_weights": self._saved,
            "load_weights": self._loaded,
            "save_weights_external": lambda data: self._future(
                {"path": self.tenants.export(data["model_id"], data["path"])}
            ),
            "telemetry": lambda _: {"status": "accepted"},
        }
        return routes.get(route, lambda _: {})(json.loads(body) if body else {})

    def _session(self, _):
        self.sessions += 1
        return {"session_id": f"s{self.sessions}"}

    def _info(self, data):
        name = "another/base" if self.fault == "base" else self.tenants.name
        return {"model_data": {"model_name": name}, "model_id": data["model_id"], "is_lora": True}

    def _saved(self, data):
        saved = self.tenants.trainers[data["model_id"]].save(data["path"])
        return self._future({"path": f"tinker://{data['model_id']}/weights/{Path(saved).name}"})

    def _created(self, data):
        if data["base_model"] != self.tenants.name:
            return self._future({"error": f"no base {data['base_model']} here", "category": "user"})
        model = f"{data['session_id']}:train:{data['model_seq_id']}"
        self.tenants.create(model, data["lora_config"]["rank"], data["lora_config"]["seed"])
        return self._future({"model_id": model})

    def deleted(self, path):
        """Delete a state; return the status."""
        if self.fault == "never deletes":
            return 405
        _, _, _, _, model, _, _, name = path.split("/")
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
        source, _, file = data["path"].removeprefix("tinker://").split("/")
        model = f"{data['session_id']}:train:{data['model_seq_id']}"
        found = self.tenants.trainers[source]
        self.tenants.create(model, found.policy.lm.adapters._shapes[found.policy.lm.adapter].rank, 0)
        self.tenants.trainers[model].load(str(found._folder / file))
        return self._future({"path": data["path"], "model_id": model})

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


def handler(service):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with service.lock:
                answer = service.spoilt(service.answer(self.path, body, self.headers["Host"]))
            if isinstance(answer, bytes):
                self._send(answer, PROTO)
            else:
                self._send(json.dumps(answer).encode(), "application/json")

        def do_GET(self):
            if self.path.startswith("/files/"):
                _, _, model, name, file = self.path.split("/")
                self._send((service.tenants.exports[f"{model}/{name}"] / file).read_bytes(), "application/octet-stream")
                return
            if self.path == "/states":  # no part of the API
                self._send(json.dumps(service.states()).encode(), "application/json")
                return
            if self.path.startswith("/gradient/"):  # no part of the API
                weights = service.tenants.trainers[self.path.split("/")[2]].policy.parameters
                self._send(save({name: weight.grad for name, weight in weights.items()}), "application/octet-stream")
                return
            with service.lock if "healthz" not in self.path else Lock():
                answer = service.answer(self.path, b"", self.headers["Host"])
            self._send(json.dumps(answer).encode(), "application/json")

        def do_DELETE(self):
            with service.lock:
                status = service.deleted(self.path)
            self._send(b"" if status == 204 else b"{}", "application/json", status)

        def _send(self, content, kind, status=200):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    return Handler


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("base")
    parser.add_argument("--name", required=True)
    parser.add_argument("--alpha", type=float, default=16.0)
    parser.add_argument("--fault", default="")
    parser.add_argument("--after", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    service = Service(Tenants(options.base, options.name, options.alpha), options.fault, options.after)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(service))
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
