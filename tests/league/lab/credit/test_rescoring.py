"""``league lab rescore``: the credit of stored matches again, by other rules and other prices of a forfeit."""

import json
import random
import time

import pytest

from arena.records import EndReason, MatchRequest, Reply
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from league.cli.dispatch import main
from league.config import RolesConfig
from league.config.credit import CreditConfig
from league.config.load import seat_roles
from league.lab.credit.rescoring import Scoring, rescore
from league.population.storage.exports import load_matches, save_matches
from league.population.storage.sampled_matches import SampledMatch

CREDIT = CreditConfig()


class Careless:
    """An engine whose every fourth reply or so is illegal."""

    def sample(self, requests):
        return [Reply("?" if r.rng.random() < 0.25 else f"[{r.rng.choice(r.legal)}]") for r in requests]


def roles_with(game, price=None):
    return {game: seat_roles(RolesConfig(reply="free", on_illegal="forfeit", price=price), make_game(game).spec)}


def stored(game, price=None, number=60, trained=True):
    """Return matches of careless players, as a run keeps them."""
    roles, seats = roles_with(game, price), make_game(game).spec.seats
    requests = [MatchRequest(i, game, i // 4, i, ("main",) * seats, (trained,) * seats) for i in range(number)]
    episodes = play(requests, roles_of=roles.__getitem__, engine_of=lambda _: Careless(), make_game=make_game)
    return [SampledMatch(e, 1, (), ((None,) * len(e.turns),)) for e in episodes]


def scoring(rule="reinforce", price=None, repriced=False):
    return Scoring(lambda game, role: rule, CREDIT.settings_of, lambda game, role: None, True, price, repriced)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """Return a run of which every match was kept."""
    path = tmp_path_factory.mktemp("whole") / "run"
    settings = [
        "model.hidden_size=16",
        "model.layers=1",
        "model.intermediate_size=16",
        "model.heads=2",
        "model.kv_heads=1",
    ]
    settings += ["iterations=3", "snapshot_every=1", "episodes_kept=1000", "games={kuhn_poker={matches=24}}"]
    settings += ["cold_start.steps=5", "matchmaking.group_size=4", "evaluation.matches=2"]
    settings += ['credit.rules={"kuhn_poker/second"="grpo"}']  # the first has one that remembers earlier iterations
    assert main(["train", "pocket-returns", "--run-dir", str(path), *(w for s in settings for w in ("--set", s))]) == 0
    return path


def test_a_run_of_which_every_match_was_kept_gets_its_own_numbers_again(whole_run, tmp_path, capsys):
    capsys.readouterr()
    out = tmp_path / "again.jsonl"
    assert main(["rescore", str(whole_run), "-o", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["matches"] == 72
    assert all(role["equal"] == role["stored"] == role["turns"] > 20 for role in report["roles"])
    kept = [json.loads(path.read_text()) for path in sorted((whole_run / "episodes").glob("*.credit.json"))]
    again = [json.loads(json.dumps(match.advantages)) for match in load_matches(out)]
    assert again == [match["advantages"] for iteration in kept for match in iteration["matches"]]


def test_another_rule_changes_the_credit_and_says_how_often_its_sign(whole_run, capsys):
    assert main(["rescore", str(whole_run), "--rule", "reinforce:gamma=0.5"]) == 0
    text = capsys.readouterr().out
    assert "72 stored matches, credited by reinforce:gamma=0.5" in text
    assert "100.0%" not in text


@pytest.mark.parametrize("game", ["kuhn_poker", "tiny_hanabi", "ipd", "tic_tac_toe", "bargaining"])
@pytest.mark.parametrize(("played_at", "price"), [(None, 0.5), (0.5, None), (2.0, 0.25)])
def test_another_price_gives_what_play_at_that_price_gives(game, played_at, price):
    """The same draws end in the same forfeits, whatever they cost."""
    before, wanted = stored(game, played_at), stored(game, price)
    found = rescore(before, roles_with(game, played_at), scoring(price=price, repriced=True))
    expected = rescore(wanted, roles_with(game, price), scoring())
    assert any(sample.episode.end is EndReason.FORFEIT for sample in before)
    for new, right in zip(found.samples, expected.samples, strict=True):
        assert new.episode.returns == pytest.approx(right.episode.returns)
        assert [turn.reward for turn in new.episode.turns] == pytest.approx([t.reward for t in right.episode.turns])
        assert new.advantages[0] == pytest.approx(right.advantages[0])


def test_another_price_changes_the_rows_of_forfeits_alone():
    before = stored("kuhn_poker")
    plain = rescore(before, roles_with("kuhn_poker"), scoring())
    found = rescore(before, roles_with("kuhn_poker"), scoring(price=0.5, repriced=True))
    forfeits = [sample.episode.end is EndReason.FORFEIT for sample in before]
    assert [a != b for a, b in zip(plain.samples, found.samples, strict=True)] == forfeits
    assert found.settled == sum(forfeits)
    one = next(s for s in found.samples if s.episode.end is EndReason.FORFEIT)
    offender = one.episode.offender
    assert one.episode.returns[offender] == -0.5
    assert one.advantages[0][-1] == -0.25  # of 2 chips, half the range of the game's returns


def test_matches_in_which_nobody_was_trained_are_credited_for_every_seat(tmp_path, capsys):
    path = tmp_path / "matches.jsonl"
    save_matches(path, stored("kuhn_poker", trained=False))
    assert main(["rescore", str(path), "--rule", "grpo", "--json"]) == 0
    roles = json.loads(capsys.readouterr().out)["roles"]
    assert [role["role"] for role in roles] == ["first", "second"]
    assert [role["stored"] for role in roles] == [0, 0]
    assert all(abs(role["mean"]) < 1.0 < role["turns"] for role in roles)


@pytest.mark.parametrize("rule", ["gae_turn", "regret", "malt", "spo"])
def test_a_rule_that_needs_more_than_matches_is_refused(rule):
    with pytest.raises(UsageError, match="which is not stored with matches"):
        rescore(stored("kuhn_poker", number=4), roles_with("kuhn_poker"), scoring(rule))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "cannot be read"),
        (["{matches}", "--price", "-1"], "the cost of a forfeit, 0 or more"),
        (["{matches}", "--price", "cheap"], "the cost of a forfeit, 0 or more"),
        (["{matches}", "--rule", "nosuch"], "no credit rule named"),
        (["{matches}", "--rule", "rloo", "--like", "nosuch"], "nosuch"),
        (["{cut}"], "is not a file of whole matches"),
    ],
)
def test_wrong_inputs_are_told_in_a_sentence(words, told, tmp_path, capsys):
    paths = {"matches": tmp_path / "matches.jsonl", "cut": tmp_path / "cut.jsonl"}
    save_matches(paths["matches"], stored("kuhn_poker", number=8))
    paths["cut"].write_text(paths["matches"].read_text()[:-40])
    capsys.readouterr()
    assert main(["rescore", *(word.format(**paths) for word in words)]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.timed
def test_a_hundred_thousand_matches_are_credited_in_a_minute(tmp_path, capsys):
    path, matches = tmp_path / "matches.jsonl", stored("kuhn_poker", number=1_000)
    draw = random.Random(0)
    many = [draw.choice(matches) for _ in range(100_000)]
    numbered = [
        s._replace(episode=s.episode._replace(request=s.episode.request._replace(index=i))) for i, s in enumerate(many)
    ]
    save_matches(path, numbered)
    began = time.process_time()
    assert main(["rescore", str(path), "--rule", "rae"]) == 0
    assert time.process_time() - began < 60.0
