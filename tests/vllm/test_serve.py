"""`league serve --engine vllm`: vLLM's own server answers the prompts of a run's training as the snapshot does."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from urllib.request import Request, urlopen

import pytest
from support.matches.kuhn import kuhn_pocket
from support.source import ROOT

from arena.lm.language_model import LanguageModel
from league.config import RunConfig
from league.config.load import write_run_config
from league.population.storage.population import Population

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "small"
    path.mkdir()
    write_run_config(path, RunConfig(games={"kuhn_poker": {}}, model={"hidden_size": 128}))
    Population(path / "population").add("main", 10, None, kuhn_pocket(hidden_size=128).save)
    return path


def test_it_answers_as_the_snapshot_does(run):
    words = ["serve", str(run), "--engine", "vllm", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "league", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        first, _, curl, _ = (process.stdout.readline() for _ in range(4))
        address = re.search(r"http://\S+/v1", first)[0]
        body = json.loads(shlex.split(curl)[-1]) | {"temperature": 0, "logprobs": True, "top_logprobs": 0}
        del body["structured_outputs"]
        request = Request(
            f"{address}/chat/completions", json.dumps(body).encode(), headers={"Content-Type": "application/json"}
        )
        answer = json.load(urlopen(request, timeout=120))
        lm = LanguageModel.load(run / "population" / "main-000010")
        prompt = lm.encode_prompt(body["messages"])
        assert answer["model"] == "main-000010"
        assert answer["usage"]["prompt_tokens"] == len(prompt)
        [chunk] = lm.plan([prompt], [((),)], 8192)
        likeliest = lm.run(chunk, 1).logits[0, -1].log_softmax(-1).max().item()
        assert answer["choices"][0]["logprobs"]["content"][0]["logprob"] == pytest.approx(likeliest, abs=1e-3)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
