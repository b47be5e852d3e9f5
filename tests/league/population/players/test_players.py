"""Names that users write are resolved to players, with exact tables where those exist."""

import json
import random
import shutil

import pytest

from arena.samplers import scripted
from arena.samplers.scripted import solve_cfr
from games.common.errors import UsageError
from games.registry import make_game
from league.config import CONFIG_FILE
from league.config.load import load, write_run_config
from league.population.players.engines import Engines
from league.population.players.player import resolve, with_probes
from league.theory.exact.exploitability import head_to_head, nash_conv
from roles.role import ReplyForm

KUHN = make_game("kuhn_poker").spec


def player(text, spec=KUHN):
    return resolve(str(text), spec, Engines())


def test_seats_are_asked_the_probes_of_the_games_card():
    """Villagers are asked who the wolf is; the wolf is not. A game without probes is refused."""
    plain = player("scripted:bayes", make_game("hidden_roles").spec)
    asked = with_probes(plain)
    assert [[probe.name for probe in role.probes] for role in asked.roles] == [[], *[["wolf"]] * 4]
    assert [role.model_copy(update={"probes": ()}) for role in asked.roles] == list(plain.roles)
    with pytest.raises(UsageError, match="the card of kuhn_poker has none"):
        with_probes(player("random"))


def refusal(text, spec=KUHN):
    with pytest.raises(UsageError) as caught:
        player(text, spec)
    return str(caught.value)


def copy_of(run_dir, tmp_path, *overrides):
    """Return a copy of the run with a changed configuration."""
    path = tmp_path / "copy"
    shutil.copytree(run_dir, path)
    config = load(str(path / CONFIG_FILE), overrides)
    write_run_config(path, config)
    return path


def test_random_has_the_known_nash_conv_of_uniform_play():
    table, exact, *_ = player("random").tabulate()
    assert exact
    assert nash_conv(table) == pytest.approx(11 / 12)


def test_equilibrium_against_itself_has_the_value_of_the_game():
    table, exact, *_ = player("equilibrium").tabulate()
    assert exact
    assert head_to_head([table, table])[0] == pytest.approx(-1 / 18, abs=1e-3)


@pytest.mark.parametrize("order", ["random", "descending"])
def test_equilibrium_is_exact_where_cfr_misses_its_target(order, monkeypatch, capsys):
    """After 2,000 iterations CFR+ is at 2.6e-4 here, and after these few at more than 1e-2."""
    spec = make_game(f"goofspiel(imp_info=True,num_cards=4,points_order={order})").spec
    solve_cfr.cache_clear()
    monkeypatch.setattr(scripted, "MAX_VISITS", 100_000)
    table, exact, *_ = player("equilibrium", spec).tabulate()
    solve_cfr.cache_clear()
    assert exact
    assert nash_conv(table) / 2 < 1e-6
    assert capsys.readouterr().err == ""


def test_a_run_is_its_newest_snapshot_and_names_say_which(run_dir):
    assert player(run_dir).members == (((f"{run_dir}@main-000010", 1.0),),) * 2
    assert player(f"{run_dir}@main-000000").members == (((f"{run_dir}@main-000000", 1.0),),) * 2
    mixed = player(f"{run_dir}@mixture").members[0]
    assert [weight for _, weight in mixed] == pytest.approx([1 / 3, 2 / 3])  # linear: 1, 2


def test_a_run_may_be_named_without_its_folder(run_dir, monkeypatch):
    monkeypatch.chdir(run_dir.parent.parent)
    (run_dir.parent.parent / "runs").exists() or (run_dir.parent.parent / "runs").symlink_to(run_dir.parent)
    assert player("tiny").members[0][0][0] == "runs/tiny@main-000010"
    assert "runs/tiny" in refusal("runs/tinny")


def test_a_mixture_draws_by_its_weights_and_repeats_with_the_generator(run_dir):
    mixed = player(f"{run_dir}@mixture")
    draws = [mixed.draw(0, random.Random(seed)) for seed in range(3000)]
    assert draws.count(f"{run_dir}@main-000010") / 3000 == pytest.approx(2 / 3, abs=0.03)
    assert draws == [mixed.draw(0, random.Random(seed)) for seed in range(3000)]


def test_a_mixtures_table_mixes_by_realisation_weight(run_dir):
    old, new, mixed = (player(f"{run_dir}{which}").tabulate() for which in ("@main-000000", "", "@mixture"))
    assert old.exact
    assert mixed.exact
    first_move = next(key for key in mixed.table.probabilities if key == (0, "0"))
    pairs = zip(old.table.probabilities[first_move], new.table.probabilities[first_move], strict=True)
    expected = [(a + 2 * b) / 3 for a, b in pairs]  # nothing comes before it, so the plain weights hold
    assert mixed.table.probabilities[first_move] == pytest.approx(expected)
    exact = head_to_head([mixed.table, old.table])[0]
    parts = [head_to_head([component.table, old.table])[0] for component in (old, new)]
    assert exact == pytest.approx((parts[0] + 2 * parts[1]) / 3)


def test_free_replies_are_estimated_and_say_so(run_dir, tmp_path):
    path = copy_of(run_dir, tmp_path, "roles.reply=free", "roles.max_reply_tokens=4")
    free = player(path)
    assert {role.reply for role in free.roles} == {ReplyForm.FREE}
    assert {role.reply for role in player(run_dir).roles} == {ReplyForm.CHOICE}
    table, exact, illegal_rate = free.tabulate()[:3]
    assert not exact
    assert 0.9 < illegal_rate <= 1.0  # an untrained model hardly ever marks an answer
    assert nash_conv(table) > 0.0


def test_estimates_come_near_the_truth():
    search = player("mcts:1", make_game("tic_tac_toe").spec)
    assert not hasattr(search.engine, "distributions")
    from league.population.players.tabulating import PolicyReader

    class Sometimes:
        """Bets with probability 3/4."""

        def sample(self, requests):
            from arena.records import Reply

            return [Reply("bet" if request.rng.random() < 0.75 else "pass") for request in requests]

    base = player("random")
    biased = type(base)(base.label, base.spec, Sometimes(), base.roles, base.members)
    reader = PolicyReader("random", biased.engine, biased.roles, random.Random(0))
    rows = reader([(0, make_game("kuhn_poker"))] * 50)
    mean = sum(row[1] for row in rows) / 50
    assert make_game("kuhn_poker").legal_actions()[1] == "bet"
    assert mean == pytest.approx(0.75, abs=0.03)


def test_each_seat_has_the_mixture_that_was_measured_for_it(run_dir, tmp_path):
    """The second seat of Kuhn poker decides once a match, so its mixture's rows are weighted means of the tables'."""
    path = copy_of(run_dir, tmp_path)
    old, new = f"{path}@main-000000", f"{path}@main-000010"
    weights = [{"main-000000": 1.0, "main-000010": 0.0}, {"main-000000": 0.25, "main-000010": 0.75}]
    (path / "mixtures.json").write_text(json.dumps({"kuhn_poker": weights}))
    mixed = player(f"{path}@mixture")
    assert mixed.members == (((old, 1.0),), ((old, 0.25), (new, 0.75)))
    drawn = [mixed.draw(1, random.Random(seed)) for seed in range(400)]
    assert drawn.count(new) / 400 == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / 400) ** 0.5)
    tables = [player(text).tabulate().table.probabilities for text in (old, new)]
    for key, row in mixed.tabulate().table.probabilities.items():
        share = 0.25 if key[0] == 1 else 1.0
        expected = [share * a + (1 - share) * b for a, b in zip(tables[0][key], tables[1][key], strict=True)]
        assert row == pytest.approx(expected), key


def test_a_mixture_is_the_one_that_was_measured_with_the_newest_snapshot(run_dir, tmp_path):
    path = copy_of(run_dir, tmp_path, "evaluation.mixture=nash")
    (path / "mixtures.json").write_text(json.dumps({"kuhn_poker": [{"main-000000": 0.0, "main-000010": 1.0}] * 2}))
    assert [weight for _, weight in player(f"{path}@mixture").members[0]] == [1.0]
    assert "no results" in refusal(f"{path}@mixture", make_game("tiny_hanabi").spec)


def test_a_damaged_snapshot_is_refused_by_name(run_dir, tmp_path):
    path = copy_of(run_dir, tmp_path)
    weights = path / "population" / "main-000010" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.chmod(0o644)
    weights.write_bytes(content)
    with pytest.raises(UsageError, match=r"main-000010.*model\.safetensors"):
        player(path).tabulate()


def test_wrong_names_offer_the_nearest(run_dir, tmp_path):
    assert "equilibrium" in refusal("equilibrum")
    assert "main-000010" in refusal(f"{run_dir}@main-00010")
    assert "number of simulations" in refusal("mcts:many")
    assert "number of simulations" in refusal("mcts")
    assert "one simulation or more" in refusal("mcts:0")
    assert "not a run" in refusal(tmp_path)
    assert "no folder" in refusal("hf:./absent")
    assert "hub id" in refusal("hf:")


def test_a_run_without_a_snapshot_says_so(run_dir, tmp_path):
    path = copy_of(run_dir, tmp_path)
    shutil.rmtree(path / "population")
    assert "no snapshot yet" in refusal(path)


def test_a_snapshot_is_a_checkpoint_like_any_other(run_dir):
    """Its cards too: a pocket model is known by its tokenizer, and has brief ones."""
    as_checkpoint = player(f"hf:{run_dir}/population/main-000010")
    assert [role.ask for role in as_checkpoint.roles] == ["", ""]
    as_checkpoint = as_checkpoint.tabulate()
    assert as_checkpoint.table.probabilities == player(run_dir).tabulate().table.probabilities
