"""Predictions that cards have written: what they are of, what came true, and who is credited for it."""

from pathlib import Path

import pytest
import tomli_w
import torch
from safetensors.torch import load_file
from support.learning.trajectories import trajectory
from support.matches.contexts import matches, with_slots
from support.matches.kuhn import engine_with, kuhn_pocket
from support.processes.runs import TINY, league_train

from arena.records import Reply
from arena.samplers.scripted import Always, Script
from games.common.errors import UsageError
from games.registry import make_game
from league.config.context import run_context
from league.config.load import load
from league.training.board.observers.shaping import prediction_metrics
from league.training.checkpoints.learner_checkpoint import LearningState
from league.training.evidence.shaping import with_shaping
from league.training.evidence.source import AfterPlay
from league.training.evidence.sources import SOURCES, evidence_from_play
from league.training.evidence.stated import Stated, shown_after, stated_predictions
from league.training.learning.iteration import update_policies
from league.training.learning.policies import new_policy
from learners.advantages.rule import Credited
from learners.advantages.stated import with_stated
from learners.trajectories import Evidence, evidence_from_json, evidence_to_json, to_trajectories
from roles.cards import load_roles
from roles.slots import prediction_slots

COORDINATION = "repeated_game(stage_game=matrix_coordination(),num_repetitions=3)"
SIGNALS = "signalling(rounds=2,form=1)"
THINGS = ["sun", "tree", "fish"]


class Foresees:
    """Predicts and acts as two lists say, and keeps what it was shown before each act."""

    def __init__(self, predictions, acts):
        self._texts = {True: iter(predictions), False: iter(acts)}
        self.shown = []

    def sample(self, requests):
        self.shown += [request.observation for request in requests if not request.probe]
        return [Reply(next(self._texts[bool(request.probe)])) for request in requests]


def played(game, engines, predicting, choices=(), **fields):
    """Return the roles and a match's record; the roles of the seats that are predicting have a slot."""
    table = {"rule": "prediction", **({"choices": list(choices)} if choices else {})}
    roles = tuple(
        with_slots(role, "They will: {plan}\n{observation}", plan=table) if role.seat in predicting else role
        for role in load_roles(make_game(game).spec)
    )
    (episode,) = matches(game, engines, roles, **fields)
    return roles, episode


def test_the_act_is_asked_for_behind_the_prediction_and_the_prediction_before_the_act():
    sender = Foresees(["sun", "fish"], ["bem", "dax"])
    roles, episode = played(SIGNALS, [sender, Script("code-1")], {0}, THINGS)
    assert [(turn.seat, turn.tool, turn.action) for turn in episode.turns] == [
        *((0, "plan", "sun"), (0, "", "bem"), (1, "", "sun")),
        *((0, "plan", "fish"), (0, "", "dax"), (1, "", "tree")),
    ]
    assert [shown.split("\n")[0] for shown in sender.shown] == ["They will: sun", "They will: fish"]
    assert "They will" not in episode.turns[0].observation, "it predicts from what it sees, not from a prediction"
    assert stated_predictions(roles[0], episode) == [Stated(0, "sun", "sun"), Stated(3, "fish", "tree")]
    assert [one.right for one in stated_predictions(roles[0], episode)] == [1.0, 0.0]
    assert stated_predictions(roles[1], episode) == []


def test_a_prediction_after_which_nobody_acts_has_no_outcome():
    receiver = Foresees(["DAX ", "dax"], ["sun", "sun"])
    roles, episode = played(SIGNALS, [Script("code-1"), receiver], {1})
    state = episode.turns[3].observation.rpartition("it is ")[2].rstrip(".")
    word = dict(zip(THINGS, ("bem", "dax", "fep"), strict=True))[state]
    first, last = stated_predictions(roles[1], episode)
    assert (first.act, first.right) == (word, float(word == "dax"))
    assert (last.act, last.right) == (None, None)


@pytest.mark.parametrize("seat", [0, 1])
def test_where_all_choose_at_once_the_outcome_is_this_rounds_choice_whoever_writes_it_down_first(seat):
    """The other's choice is the same in each round, so its view does not change from the second round to the third."""
    predicting = Foresees(["left", "right", "left"], ["left"] * 3)
    engines = [Always("left"), Always("left")]
    engines[seat] = predicting
    roles, episode = played(COORDINATION, engines, {seat}, ("left", "right"))
    found = stated_predictions(roles[seat], episode)
    assert [(one.act, one.right) for one in found] == [("left", 1.0), ("left", 0.0), ("left", 1.0)]
    assert all(episode.turns[one.turn].seat == seat for one in found)


def test_of_three_seats_the_next_to_act_is_predicted():
    engines = [Always("pass"), Foresees(["pass"], ["bet"]), Foresees(["bet"], ["pass"])]
    roles, episode = played("kuhn_poker(players=3)", engines, {1, 2}, ("pass", "bet"))
    assert [turn.action for turn in episode.turns if not turn.tool] == ["pass", "bet", "pass", "pass"]
    assert stated_predictions(roles[1], episode) == [Stated(1, "pass", "pass")], "the third's, not the first's"
    assert stated_predictions(roles[2], episode) == [Stated(3, "bet", "pass")], "the first's second act"


def test_an_act_that_its_seat_is_never_shown_is_no_outcome():
    """The first seat of the last round is shown the other's choice at the end; in a match that stops before, never."""
    roles, episode = played(COORDINATION, [Foresees(["left"] * 3, ["left"] * 3), Always("left")], {0}, ("left",))
    cut = episode._replace(turns=episode.turns[:5])  # round 2 begins, and the other has not chosen
    assert [one.right for one in stated_predictions(roles[0], cut)] == [1.0, None]
    seen = [("", "left"), ("moved", "moved"), ("moved", "left"), ("over", "It was Left.")]
    assert [shown_after(seen, 0, act) for act in ("left", "lef", "moved")] == [3, None, 1]


def test_a_seat_predicts_for_itself():
    role = load_roles(make_game(SIGNALS).spec)[0]
    with pytest.raises(ValueError, match="predicts for itself"):
        with_slots(role, "{plan}\n{observation}", plan={"rule": "prediction", "by": "receiver"})
    assert prediction_slots(with_slots(role, "{plan}\n{observation}", plan={"rule": "plan"}).slots) == frozenset()


def test_credit_is_the_score_less_its_mean_over_predictions_of_the_same_number_and_of_no_other_turn():
    """By hand: first predictions score 1, 0, 0 (mean 1/3), second ones 1, 1 (mean 1); another role's stand apart."""
    batch = [
        trajectory((0.0, 1.0, 0.0, 1.0), match=2),
        trajectory((0.0, 1.0, 0.0, 1.0), match=0),
        trajectory((0.0, 1.0), match=1),
        trajectory((0.0, 1.0), role="second", seat=1, match=2),
        trajectory((0.0, 1.0), role="third", seat=2, match=2),
    ]
    scores = [(1.0, None, 1.0, None), (0.0, None, 1.0, None), (0.0, None), (1.0, None), (0.0, None)]
    evidence = [Evidence(stated=row) for row in scores]
    before = [[0.5] * len(one.turns) for one in batch]
    after = with_stated(batch, evidence, before, [3.0, 3.0, 3.0, 3.0, 0.0])
    assert after[0] == pytest.approx([2.5, 0.5, 0.5, 0.5])
    assert after[1] == pytest.approx([-0.5, 0.5, 0.5, 0.5])
    assert after[2] == pytest.approx([-0.5, 0.5])
    assert after[3:] == [[0.5, 0.5]] * 2, "alone, or without a factor"
    assert before == [[0.5] * len(one.turns) for one in batch]
    assert with_stated(batch, evidence, before, [0.0] * 5) is before
    assert with_stated(batch, [Evidence()] * 5, before, [1.0] * 5) is before
    assert evidence_from_json(evidence_to_json(evidence[0])) == evidence[0]
    with pytest.raises(UsageError, match="all legal replies"):
        with_stated(batch[:1], [evidence[0].with_cells(reply_credits=((0.0,),) * 4)], before[:1], [1.0])


def config(tmp_path, *overrides, slot=None, game="kuhn_poker", legal=("pass", "bet")):
    """Return a tiny run's configuration, with cards that predict for the roles in ``slot``; None: for all."""
    folder = tmp_path / "cards"
    folder.mkdir(exist_ok=True)
    table = {"prompt": "They will: {plan}\n{observation}", "slots": {"plan": {"rule": "prediction", "choices": legal}}}
    roles = [
        {
            "name": role.name,
            "seat": role.seat,
            "system": role.system,
            **(table if slot is None or role.name in slot else {"prompt": role.prompt}),
        }
        for role in load_roles(make_game(game).spec)
    ]
    (folder / "card.toml").write_text(tomli_w.dumps({"game": game, "role": roles}))
    path = tmp_path / "run.toml"
    path.write_text(TINY)
    fixed = ["iterations=2", f"roles.cards='{folder}'", "board.time=0", "evaluation.exact=false"]
    return load(str(path), [*fixed, *overrides])


def learned(settings, episodes, scale=1.0):
    """Return the rows that an update gets, by (prompt, reply): the sum of gains and losses."""
    context = run_context(settings, Path())
    trajectories = to_trajectories(episodes, lambda game: context.roles[game], context.scales)
    evidence = evidence_from_play(context, AfterPlay(trajectories, {one.request.index: one for one in episodes}, {}))
    credited = Credited([[scale] * len(t.turns) for t in trajectories], [1.0] * len(trajectories), {})
    batches = []

    def capture(_policy, batch, *_):
        batches.append(batch)
        return {}

    state = LearningState({"main": new_policy(context, "main", kuhn_pocket())})
    update_policies(settings, state, trajectories, evidence, credited, 1, capture)
    return {
        (row.prompt, reply): row.gains[i] + row.losses[i]
        for batch in batches
        for row in batch.choice
        for i, reply in enumerate(row.legal)
    }


def self_played(settings, number=24):
    context = run_context(settings, Path())
    engine = engine_with(main=kuhn_pocket())
    seats = make_game("kuhn_poker").spec.seats
    roles, names = context.roles["kuhn_poker"], ("main",) * seats
    return context, matches("kuhn_poker", [engine] * seats, roles, number=number, trained=True, players=names)


def test_only_the_predictions_rows_of_an_update_change_with_the_weight(tmp_path):
    settings = {weight: config(tmp_path, f"shaping.prediction.weight={weight}") for weight in (0.0, 1.0, 2.0)}
    context, episodes = self_played(settings[2.0])
    rows = {weight: learned(one, episodes) for weight, one in settings.items()}
    assert rows[0.0].keys() == rows[2.0].keys()
    prompts = {turn.trace.prompt_ids: turn.tool for episode in episodes for turn in episode.turns if turn.trace}
    changed = {key for key in rows[0.0] if rows[0.0][key] != rows[2.0][key]}
    assert changed
    assert {prompts[prompt] for prompt, _ in changed} == {"plan"}
    for key in changed:
        assert rows[2.0][key] - rows[0.0][key] == pytest.approx(2 * (rows[1.0][key] - rows[0.0][key]))
    assert sum(rows[2.0].values()) == pytest.approx(sum(rows[0.0].values())), "what is right is paid by what is wrong"
    assert with_shaping(context, 1, episodes) == episodes, "returns and rewards are the game's, so they sum to zero"
    assert all(sum(episode.returns) == 0.0 for episode in episodes)


def test_without_a_weight_nothing_is_gathered_and_with_one_the_cells_are_the_scores(tmp_path):
    context, episodes = self_played(config(tmp_path, "shaping.prediction.weight=1"), 6)
    trajectories = to_trajectories(episodes, lambda game: context.roles[game], context.scales)
    play = AfterPlay(trajectories, {one.request.index: one for one in episodes}, {})
    for one, facts in zip(trajectories, evidence_from_play(context, play), strict=True):
        known = {
            p.turn: p.right for p in stated_predictions(context.roles["kuhn_poker"][one.seat], episodes[one.match])
        }
        assert facts.stated == tuple(known.get(turn) for turn in one.order)
    off = run_context(config(tmp_path), Path())
    assert SOURCES["stated"].asked(context, "kuhn_poker", "first")
    assert not SOURCES["stated"].asked(off, "kuhn_poker", "first")
    assert all(facts.stated is None for facts in evidence_from_play(off, play))


def test_the_board_shows_the_share_that_came_true_beside_the_most_frequent_act(tmp_path):
    game, legal = "kuhn_poker", ("pass", "bet")
    settings = config(tmp_path)
    context = run_context(settings, Path())
    found = []
    for guess, act in (("bet", "bet"), ("pass", "bet"), ("bet", "pass")):
        engines = [Foresees([guess] * 2, ["pass", "bet"]), Foresees(["bet"], [act])]
        _, episode = played(game, engines, {0, 1}, legal)
        found.append(episode._replace(request=episode.request._replace(trained=(True, False))))
    metrics = prediction_metrics(context, found)
    assert metrics == {
        "kuhn_poker/predictions/first/right": pytest.approx(1 / 3),
        "kuhn_poker/predictions/first/base": pytest.approx(2 / 3),
    }


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"slot": ()}, "no learning role's card"),
        ({"role": 0.0}, "no learning role's card"),
        ({"objective": "dmpo"}, "does not read"),
    ],
)
def test_credit_that_nobody_could_earn_is_refused(tmp_path, overrides, words):
    changes = ["shaping.prediction.weight=1"]
    if "role" in overrides:
        changes.append('shaping.prediction.roles={"kuhn_poker/first"=0.0,"kuhn_poker/second"=0.0}')
    if "objective" in overrides:
        changes += ["objective.name=dmpo", "matchmaking.group_size=4"]
    with pytest.raises(UsageError, match=words):
        run_context(config(tmp_path, *changes, slot=overrides.get("slot")), Path())


CONTRIBUTIONS = ("shaping.prediction.weight=1", "credit.rule=contribution")
ALL_REPLIES = (*CONTRIBUTIONS, "values.estimator=empirical")
OF_SECOND = (
    "shaping.prediction.weight=1",
    'credit.rules={"kuhn_poker/second"="contribution"}',
    'values.estimators={"kuhn_poker/second"="empirical"}',
)


def factors(**by_role):
    return "shaping.prediction.roles={" + ",".join(f'"kuhn_poker/{name}"={f}' for name, f in by_role.items()) + "}"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (ALL_REPLIES, r"credits all legal replies.* that kuhn_poker/first has drawn"),
        ((*ALL_REPLIES, factors(first=0.0)), "that kuhn_poker/second has drawn"),
        ((*OF_SECOND,), "that kuhn_poker/second has drawn"),
        ((*CONTRIBUTIONS, "values.estimator=exact"), r"\{plan\} on the card of .*/first is written in each match"),
    ],
)
def test_an_estimator_that_credits_all_replies_or_enumerates_is_refused_before_the_run_begins(
    tmp_path, overrides, words
):
    with pytest.raises(UsageError, match=words):
        run_context(config(tmp_path, *overrides), Path())


@pytest.mark.parametrize(
    "overrides",
    [
        (*ALL_REPLIES[1:], "shaping.prediction.weight=0"),
        (*OF_SECOND, factors(second=0.0)),
        ("shaping.prediction.weight=1", "values.estimator=empirical"),  # the default rule reads no estimate
    ],
)
def test_it_is_not_refused_where_no_valued_role_has_its_predictions_credited(tmp_path, overrides):
    run_context(config(tmp_path, *overrides), Path())


FIRST_BY_REPLAY = (
    *CONTRIBUTIONS,
    'values.estimators={"kuhn_poker/first"="alternatives","kuhn_poker/second"="empirical"}',
)


@pytest.mark.parametrize(("overrides", "slot"), [((factors(second=0.0),), None), ((), ("first",))])
def test_predictions_of_a_role_that_another_estimator_values_are_credited(tmp_path, overrides, slot):
    """The second seat's estimator credits all replies; the first's predictions alone are credited."""
    run_context(config(tmp_path, *FIRST_BY_REPLAY, *overrides, slot=slot), Path())


def test_an_estimator_that_enumerates_takes_a_slot_that_the_position_fills(tmp_path):
    folder = tmp_path / "cards"
    folder.mkdir()
    window = {"prompt": "{earlier}\n{observation}", "slots": {"earlier": {"rule": "window"}}}
    roles = [
        {"name": r.name, "seat": r.seat, "system": r.system, **window} for r in load_roles(make_game("kuhn_poker").spec)
    ]
    (folder / "card.toml").write_text(tomli_w.dumps({"game": "kuhn_poker", "role": roles}))
    (tmp_path / "run.toml").write_text(TINY)
    exact = (*CONTRIBUTIONS[1:], "values.estimator=exact", f"roles.cards='{folder}'")
    run_context(load(str(tmp_path / "run.toml"), list(exact)), Path())


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["copies", "a learner process", "a learner process that play is ahead of"])
def test_updates_elsewhere_learn_from_the_same_predictions(tmp_path, how):
    """Two processes for an update end within rounding of one, a learner process that takes turns at the same bits.

    Play that is ahead has drawn the first two iterations by the first weights, so the first update has the same bits.
    """
    elsewhere, number = {
        "copies": (["optimizer.processes=2"], 2),
        "a learner process": (["async_learners.processes=each"], 2),
        "a learner process that play is ahead of": (
            ["async_learners.processes=each", "async_learners.max_staleness=1", "optimizer.max_gap=1"],
            1,
        ),
    }[how]
    without, alone, there = (
        weights_of(tmp_path, name, number, "objective.truncate=2", "snapshot_every=1", *changes)
        for name, changes in (
            ("without", ["shaping.prediction.weight=0", *elsewhere]),
            ("alone", ["shaping.prediction.weight=2"]),
            ("there", ["shaping.prediction.weight=2", *elsewhere]),
        )
    )
    tight = {"rtol": 1e-4, "atol": 1e-5} if how == "copies" else {"rtol": 0.0, "atol": 0.0}
    assert alone.keys() == there.keys()
    for key, tensor in alone.items():
        torch.testing.assert_close(there[key], tensor, **tight, msg=key)
    assert any((without[key] - tensor).abs().max() > 1e-3 for key, tensor in alone.items()), "the credit moves weights"


def test_shards_do_not_choose_what_a_slot_says(tmp_path):
    """A chosen text is scored in passes that the other process does not make: such a run stood still."""
    free = ["roles.reply=free", "optimizer.processes=2", "optimizer.sharded=true"]
    with pytest.raises(UsageError, match=r"sharded is for .* a slot on the card of kuhn_poker/first has choices"):
        run_context(config(tmp_path, *free), Path())
    with pytest.raises(UsageError, match=r"checkpointing is for .* has choices to write from"):
        run_context(config(tmp_path, free[0], "optimizer.checkpointing=true"), Path())
    run_context(config(tmp_path, *free, legal=()), Path())
    run_context(config(tmp_path, *free, slot=()), Path())
    fixed = 'roles.player={"kuhn_poker/second"="random"}'  # who does not learn is scored by nobody
    run_context(config(tmp_path, *free, fixed, slot=("second",)), Path())


def weights_of(folder, name, number, *changes):
    """Return the weights of a snapshot of a tiny run whose cards predict, by its iteration."""
    config(folder)
    text = (folder / "run.toml").read_text() + f"board.time = 0.0\nroles.cards = '{folder / 'cards'}'\n"
    (folder / "settings.toml").write_text(text)
    options = ["iterations=2", "evaluation.exact=false", "matchmaking={self_play=1.0,fictitious=0.0}", *changes]
    words = [word for change in options for word in ("--set", change)]
    ended = league_train(folder / "settings.toml", *words, run_dir=folder / name)
    assert ended.status == 0, ended.output
    return load_file(folder / name / f"population/main-{number:06}/model.safetensors")
