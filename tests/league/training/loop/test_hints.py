"""No evaluation shows a hint: a search over all prompts of a run's measurements, of matches and of an audit."""

import pytest
import tomli_w

from arena.samplers.torch_lm import TorchLM
from games.abilities import GivesHints
from games.registry import NATIVE, make_game
from league import exploitability, load_config, match, train
from league.cli.dispatch import main
from league.training.snapshots.freeze import Snapshots
from roles.cards import load_roles

MARK = "HINT<>"
HINTING = sorted(name for name in NATIVE if isinstance(make_game(name), GivesHints))
SHORT = {"recall": "recall(turns=2)", "sums": "sums(digits=1)"}


def card(game):
    """Return a game's card with the slot of the hint in each role."""
    roles = [
        {"name": role.name, "seat": role.seat, "system": "Play.", "prompt": "{hint}\n{observation}\nLegal: {legal}"}
        | {"slots": {"hint": {"rule": "hint"}}, "reply": "choice"}
        for role in load_roles(make_game(game).spec)
    ]
    return tomli_w.dumps({"game": game, "role": roles})


@pytest.mark.thorough
def test_no_prompt_of_any_evaluation_has_a_hint(tmp_path, monkeypatch, capsys):
    assert {"find_number", "recall", "sums"} <= {*HINTING}
    games = [SHORT.get(name, name) for name in HINTING] + ["retried(sums(digits=1))", "kuhn_poker"]
    for game in games:
        of = type(make_game(game))
        monkeypatch.setattr(of, "hint", lambda *_: MARK, raising=False)  # of kuhn_poker too: it has two seats
        (tmp_path / f"{len([*tmp_path.iterdir()])}.toml").write_text(card(game))
    seen = {"training": [], "evaluation": []}
    now = ["training"]

    def watched(name):
        plain = getattr(TorchLM, name)

        def asked(engine, requests, *more, **named):
            seen[now[0]].extend((request.role.game, request.observation) for request in requests)
            return plain(engine, requests, *more, **named)

        monkeypatch.setattr(TorchLM, name, asked)

    for name in ("sample", "choices", "distributions", "bulk_distributions"):
        watched(name)
    freeze = Snapshots.freeze

    def frozen(*arguments):
        now[0] = "evaluation"
        measured = freeze(*arguments)
        now[0] = "training"
        return measured

    monkeypatch.setattr(Snapshots, "freeze", frozen)
    settings = {
        "iterations": 2,
        "snapshot_every": 1,
        "threads": 1,
        "roles": {"cards": str(tmp_path)},
        "alarms": {"stop": []},
        "games": {game: {"matches": 8} for game in games},
        "evaluation": {"matches": 8, "gate": 0.5, "gate_flips": 0.5},
    }
    (tmp_path / "config").mkdir()
    path = tmp_path / "config" / "run.toml"
    path.write_text(tomli_w.dumps(settings))
    run = train(load_config(path), tmp_path / "run").path
    for game in games:
        assert any(MARK in text for name, text in seen["training"] if name == game), game
    before = len(seen["evaluation"])
    now[0] = "evaluation"
    for game in games:
        match(run, "random", game=game, matches=8)
        match(f"{run}@mixture", f"{run}@main-000000", game=game, matches=8)
    exploitability(run, game="kuhn_poker")
    main(["audit", str(run), "--game", "kuhn_poker", "-o", str(tmp_path / "audit.html")])
    assert 0 < before < len(seen["evaluation"])
    for game in games:
        assert any(name == game for name, _ in seen["evaluation"]), game
    assert not [text for _, text in seen["evaluation"] if MARK in text]
