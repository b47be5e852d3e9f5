"""Partners that never change: snapshots of an earlier run, met from the first iteration on (a static population)."""

import json

import pytest
from safetensors.torch import load_file
from support.processes.runs import TINY, league_train

from games.common.errors import UsageError
from league.config.context import run_context
from league.config.load import load
from league.population.results.match_store import STORE_FILE, MatchStore
from league.population.storage.population import Population

GAME = "signalling(rounds=1,form=1)"
SHORT = TINY.replace("games.kuhn_poker.matches = 64", f"games.'{GAME}'.matches = 32").replace(
    "iterations = 6", "iterations = 2"
)
LEARNING = SHORT + "policies.ann.league_role = 'partner'\n"


def static(*sources):
    """Return the settings of a run beside partners that never change, by name."""
    shares = "matchmaking = { self_play = 0.0, fictitious = 0.0, partners = 1.0, opponents = 2 }\n[policies]\n"
    return (
        SHORT
        + shares
        + "".join(
            f'{name} = {{ league_role = "partner", frozen = true, model = {{ source = "{source}" }} }}\n'
            for name, source in zip(("ann", "bob", "cid", "dan", "eve"), sources, strict=False)
        )
    )


def train(folder, name, settings, *words):
    (folder / f"{name}.toml").write_text(settings)
    ended = league_train(folder / f"{name}.toml", *words, run_dir=folder / name)
    assert ended.status == 0, ended.output
    return folder / name


@pytest.mark.thorough
def test_main_meets_an_earlier_runs_snapshots_from_the_first_iteration_on_and_they_stay_as_they_are(tmp_path):
    earlier = train(tmp_path, "earlier", LEARNING) / "population"
    ann, bob = earlier / "ann-000002", earlier / "main-000000"
    run = train(tmp_path, "run", static(ann, bob))
    population = Population(run / "population")
    assert [one.id for name in ("ann", "bob") for one in population.all(name)] == ["ann-000000", "bob-000000"]
    for one, source in (("ann-000000", ann), ("bob-000000", bob)):
        before, after = (load_file(folder / "model.safetensors") for folder in (source, run / "population" / one))
        assert all((after[key] == tensor).all() for key, tensor in before.items())
        card = json.loads((run / "population" / one / "snapshot.json").read_text())
        assert (card["origin"], card["parent"]) == ("start", None)
    with MatchStore(run / STORE_FILE) as store:
        met = {player for match in store.matches(GAME) for player in match.players if match.iteration == 1}
    assert met == {"main", "ann-000000", "bob-000000"}
    text = (run / "config.toml").read_text().replace("iterations = 2", "iterations = 4")
    (run / "config.toml").write_text(text)
    ended = league_train("--resume", run_dir=run)
    assert ended.status == 0, ended.output
    assert len(Population(run / "population").all("ann")) == 1


def test_five_of_them_leave_main_all_its_matches(tmp_path):
    (tmp_path / "run.toml").write_text(static(*["pocket"] * 5))
    config = load(str(tmp_path / "run.toml"))
    assert config.exploiters.share * 5 > 1.0
    run_context(config, tmp_path)


def test_a_partner_that_learns_has_no_model_of_its_own(tmp_path):
    (tmp_path / "run.toml").write_text(static("pocket").replace("frozen = true", "frozen = false"))
    with pytest.raises(UsageError, match=r"policies\.ann\.model is set, but .* that learn .*frozen = true"):
        load(str(tmp_path / "run.toml"))
