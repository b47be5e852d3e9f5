"""A snapshot whose model computes NaN stops whatever it should play, by its name."""

import hashlib
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.matches.kuhn import FREE, engine_with, kuhn_matches, kuhn_pocket, played, roles_for

from arena.lm.finite import NotFinite
from league.cli.dispatch import main
from league.config.load import load_run_config, write_run_config

GAME = ["--game", "kuhn_poker"]


@pytest.fixture(params=[torch.nan, torch.inf], ids=["nan", "inf"])
def broken(request, run_dir, tmp_path):
    """Return a run whose newest snapshot was frozen with a number in its embeddings that is not finite."""
    run = shutil.copytree(run_dir, tmp_path / "run")
    folder = run / "population/main-000010"
    weights, card = folder / "model.safetensors", folder / "snapshot.json"
    tensors = load_file(weights)
    tensors["model.embed_tokens.weight"][:] = request.param
    for path in (weights, card):
        path.chmod(0o644)
    save_file(tensors, weights, metadata={"format": "pt"})
    facts = json.loads(card.read_text())
    facts["sha256"]["model.safetensors"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    card.write_text(json.dumps(facts))
    return run


@pytest.mark.parametrize("reply", ["choice", "free"])
@pytest.mark.parametrize("words", [["match", "RUN", "random", "--matches", "8"], ["exploitability", "RUN@mixture"]])
def test_it_is_refused_by_name(words, reply, broken, capsys):
    config = load_run_config(broken)
    roles = config.roles.model_copy(update={"reply": reply, "max_reply_tokens": 4})
    write_run_config(broken, config.model_copy(update={"roles": roles}))
    assert main([word.replace("RUN", str(broken)) for word in words] + GAME) == 2
    error = capsys.readouterr().err
    assert f"{broken}@main-000010 cannot play: its model computes numbers that are not finite" in error


def test_an_earlier_snapshot_still_plays(broken):
    assert main(["match", f"{broken}@main-000000", "random", "--matches", "8", *GAME]) == 0


@pytest.mark.parametrize("form", [{}, FREE], ids=["choice", "free"])
def test_a_policy_in_training_is_refused_by_name_too(form):
    lm = kuhn_pocket()
    engine = engine_with(a=lm, b=kuhn_pocket(1))
    assert played(engine, kuhn_matches(2), 2, roles_for(**form))
    with torch.no_grad():
        lm.parameters()["model.embed_tokens.weight"].fill_(torch.nan)
    engine.refresh()
    with pytest.raises(NotFinite, match=r"a cannot play: .* not finite .* lower optimizer\.learning_rate"):
        played(engine, kuhn_matches(2), 2, roles_for(**form))
