"""A run on paper, from its settings and the shape of its model alone: memory, replies in flight, seconds, warnings.

Each number's formula is one sentence in the docstring of what computes it; those of a model are ``arena.roofline``'s.
What is not known before a run is assumed, and said so: the tokens of prompts and replies, and the cards' rates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from arena.roofline import (
    MASTER_BYTES,
    MOMENT_BYTES,
    Shape,
    decoding,
    gathered_bytes,
    layer_bytes,
    pass_bytes,
    prefilling,
    reply_bytes,
    state_bytes,
    updating,
)
from games.registry import make_game
from league.config import RunConfig
from league.population.players.adapter_slots import BYTES, at_once, slots_of
from league.training.sizing.cards import groups, on_cluster, split, spread_of, trained
from league.training.sizing.facts import ASSUMED_RATES, Gpus, Rates, this_machine
from league.training.sizing.mending import mendings_of

GB = 1e9
WORKSPACE = 2e9  # bytes that an engine's kernels and CUDA take on a GPU, assumed
CPU_PASS = 8192  # tokens that an engine in the run's process reads at once
LEAST_PASS = 512  # tokens of the smallest pass that is worth it
LINK = 25e9  # bytes/s from a learner to an engine, and between a card and main memory, assumed
DRIVER_TRAJECTORY = 1.1e-3  # seconds of the driver for a trajectory, measured on two cores
IN_PROCESS = 0.9  # of the memory, for an engine in a process of ours
BUSY = 0.4  # share of an iteration below which engines or learners are said to wait


class Tokens(NamedTuple):
    """What a turn reads and writes, in tokens. Assumed, unless the caller knows better."""

    prompt: int = 256
    reply: int = 256
    longest: int = 512  # reply that a run allows


class Part(NamedTuple):
    """One process of the run, and the memory of its card that it takes."""

    name: str
    number: int
    bytes: float
    note: str


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What a run would be on some cards."""

    gpus: Gpus
    shape: Shape
    engines: int  # cards that play; 0: others' do
    parallel: int  # cards of one engine
    learners: int  # cards that learn; 0: a trainer elsewhere does
    beside: bool  # each card does both
    parts: tuple[Part, ...]
    replies: int  # that an engine's memory holds at once
    play: float  # seconds
    learn: float
    transfer: float
    driver: float
    seconds: float  # of an iteration
    bound: str
    rates: Rates
    warnings: tuple[str, ...] = ()
    misfits: tuple[str, ...] = ()  # sentences on what cannot fit

    @property
    def fits(self) -> bool:
        """Whether every part fits the memory of its card."""
        return not self.misfits

    def lines(self) -> tuple[str, str]:
        """Return the plan in two lines."""
        memory = self.gpus.card.memory / GB
        parts = ", ".join(f"{part.name} {part.bytes / GB:.1f} GB" for part in self.parts)
        first = (
            f"Plan for {self.gpus}: {parts}, of {memory:.0f} GB a card; {self.replies:,} replies in flight an engine."
        )
        second = (
            f"An iteration takes about {self.seconds:,.0f} s (play {self.play:,.0f}, learn {self.learn:,.0f}), "
            f"bound by {self.bound} ({self.rates.source})."
        )
        return first, second


def plan(
    config: RunConfig, shape: Shape, gpus: Gpus, rates: Rates = ASSUMED_RATES, tokens: Tokens | None = None
) -> RunPlan:
    """Return a run's plan on some cards. ``tokens`` None: as the roles allow, half of the longest reply."""
    made = _Planner(config, shape, gpus, rates, tokens or usual_tokens(config)).plan()
    if made.fits:
        return made
    return _with_mending(made, config, shape, gpus, tokens or usual_tokens(config))


def usual_tokens(config: RunConfig) -> Tokens:
    """Return the tokens of a turn as the roles allow: half of the longest reply, or an action's name."""
    longest = config.roles.max_reply_tokens or 64
    if config.roles.reply == "choice" or config.roles.reply is None:
        return Tokens(reply=4, longest=8)  # a name of an action
    return Tokens(reply=max(longest // 2, 1), longest=longest)


class _Planner:
    """The arithmetic of one plan."""

    def __init__(self, config: RunConfig, shape: Shape, gpus: Gpus, rates: Rates, tokens: Tokens) -> None:
        self._config, self._shape, self._gpus, self._rates, self._tokens = config, shape, gpus, rates, tokens
        self._policies = trained(config)
        first = config.policy(self._policies[0])
        self._rank = first.rank if first.adapted else None
        model = config.model_of(self._policies[0])
        self._bytes, self._on_gpu = BYTES[model.dtype if model.dtype in BYTES else "bfloat16"], model.device != "cpu"
        self._engines, self._learners, self._beside = split(config, gpus.number)
        self._parallel = spread_of(config).cards
        # engines of one or several cards; given servers are taken to be on cards such as these
        self._replicas = max(self._engines // self._parallel, 1) if self._engines else spread_of(config).given
        self._warnings: list[str] = []

    def plan(self) -> RunPlan:
        """Return the plan."""
        learner = self._learner() if self._config.trainer.learns_here else self._copy()
        engine, replies, misfits = self._engine(learner.bytes)
        parts = [part for part in (engine, learner, self._driver()) if part.number]
        if learner.bytes > self._gpus.card.memory:
            misfits = [f"a {learner.name} needs {learner.bytes / GB:.1f} GB"]
        play, bound = self._play(max(replies, 1))
        learn = self._learn()
        transfer = self._sent_bytes() / LINK
        driver = self._trajectories() * DRIVER_TRAJECTORY
        overlaps = not self._beside and self._config.async_learners.max_staleness > 0
        work = {bound: play, "updates": learn + transfer, "the driver": driver}
        seconds = max(work.values()) if overlaps else sum(work.values())
        self._warn(replies, play, learn + transfer, driver, overlaps)
        return RunPlan(
            gpus=self._gpus,
            shape=self._shape,
            engines=self._engines,
            parallel=self._parallel,
            learners=self._learners,
            beside=self._beside,
            parts=tuple(parts),
            replies=replies,
            play=play,
            learn=learn,
            transfer=transfer,
            driver=driver,
            seconds=seconds,
            bound=max(work, key=lambda name: work[name]),
            rates=self._rates,
            warnings=tuple(self._warnings),
            misfits=tuple(misfits),
        )

    def _engine(self, learner: float) -> tuple[Part, int, list[str]]:
        """Return the engine, how many replies it holds at once, and what does not fit.

        Replies are as many as have keys and values of the longest prompt and reply in what weights, adapters and 2 GB
        of workspace leave of its share, or in ``kv_cache_gib``, which is taken whatever the share. An engine in the
        learner's process plays the learner's own weights. Of an engine on several cards each has its part of the
        weights, of keys and values, and of adapters' cut sides.
        """
        vllm, memory = self._config.engine.vllm, self._gpus.card.memory
        waits = self._separate() and vllm.sleep  # gives its memory back while the other learns
        share = vllm.gpu_memory_utilization * memory if self._separate() else IN_PROCESS * memory
        if self._beside and not self._separate():
            share = min(share, memory - learner + self._bytes * self._shape.weights)
        given = vllm.kv_cache_gib if self._separate() else None
        if given is not None:
            share = self._least_engine() + given * 2**30
        length = self._tokens.prompt + self._tokens.longest
        parallel = self._parallel
        each = reply_bytes(self._shape, length, bytes_each=self._bytes, on_gpu=self._on_gpu, cards=parallel)
        replies = max(int((share - self._least_engine()) // each), 0)
        wanted = math.ceil(self._config.in_flight / self._replicas)
        held = self._least_engine() + min(replies, wanted) * each
        misfits = []
        if not self._engines:
            return Part("engine", 0, 0.0, "servers of others"), replies, []
        if self._shape.heads % parallel:
            misfits.append(
                f"engine.vllm_server.tensor_parallel = {parallel} does not divide the model's {self._shape.heads} heads"
            )
        elif self._engines < parallel:
            misfits.append(f"an engine takes {parallel} cards, and {self._engines} would play")
        elif not replies:
            need = (self._least_engine() + each) / GB
            misfits.append(f"an engine needs {need:.1f} GB, of which its share is {share / GB:.1f}")
        elif share > memory:
            misfits.append(f"an engine needs {share / GB:.1f} GB with engine.vllm.kv_cache_gib = {given:g}")
        elif self._beside and self._separate() and not waits and share + learner > memory:
            misfits.append(f"an engine and a learner on one card need {share / GB:.1f} and {learner / GB:.1f} GB")
        note = f"weights, {self._slots()} adapters, keys and values"
        return Part("engine", self._engines, held, note), replies, misfits

    def _least_engine(self) -> float:
        """Return the engine's weights, adapter slots and workspace: one layer's pass of 8,192 tokens on a CPU."""
        workspace = WORKSPACE if self._on_gpu else layer_bytes(self._shape, CPU_PASS, self._bytes)
        return self._bytes * self._shape.weights / self._parallel + self._slots() * self._slot_bytes() + workspace

    def _slots(self) -> int:
        """Return the adapters that one batch mixes: as set, or all that may play at once, in a tenth of the memory."""
        if self._rank is None:
            return 0
        memory = self._gpus.card.memory * self._config.engine.vllm.gpu_memory_utilization
        return slots_of(self._config, self._slot_bytes(), memory).number

    def _slot_bytes(self) -> int:
        return self._bytes * self._shape.adapter_weights(self._slot_rank(), self._parallel)

    def _slot_rank(self) -> int:
        return self._config.engine.vllm.max_lora_rank if self._separate() else self._rank or 1

    def _separate(self) -> bool:
        return not self._config.engine.in_process

    def _learner(self) -> Part:
        """Return a learner: the model, 12 bytes a trained weight (16 below single precision), copies, and one pass.

        With shards, the state is divided by the processes; a layer is gathered while it runs. Moments that are away
        between steps are 8 bytes of a weight.
        """
        optimizer, shards = self._config.optimizer, self._shards()
        state = state_bytes(self._shape, rank=self._rank, bytes_each=self._bytes, offload=optimizer.offload)
        copies = self._copies()
        held = (state + copies) / shards
        if shards > 1:
            held += gathered_bytes(self._shape, bytes_each=self._bytes)
        one = self._pass(optimizer.micro_batch_tokens or LEAST_PASS)
        kind = "all weights" if self._rank is None else f"adapters of rank {self._rank}"
        note = f"{kind}, passes of {optimizer.micro_batch_tokens:,} tokens{', sharded' if shards > 1 else ''}"
        return Part("learner", self._learners, held + one, note)

    def _pass(self, tokens: int) -> float:
        return pass_bytes(
            self._shape,
            tokens,
            tokens // 2,
            trained="adapter" if self._rank is not None else "shards" if self._shards() > 1 else "all",
            checkpointing=self._config.optimizer.checkpointing,
            bytes_each=self._bytes,
            on_gpu=self._on_gpu,
        )

    def _copies(self) -> float:
        """Return the bytes of magnet, reference and running mean: a model each, or an adapter."""
        objective = self._config.objective
        each = self._bytes * (self._shape.weights if self._rank is None else self._shape.adapter_weights(self._rank))
        means = sum(self._config.policy(name).average is not None for name in self._policies[:1])
        reference = bool(objective.kl_reference) and self._rank is None
        return each * (bool(objective.magnet) + reference + 2 * means)

    def _shards(self) -> int:
        return max(self._learners // groups(self._config), 1) if self._config.optimizer.sharded else 1

    def _copy(self) -> Part:
        """Return what plays of a policy that a trainer elsewhere has: the base and the adapter that it exports.

        A frozen model scores with them here, one pass at a time, where the loss has one. On a cluster they are the
        driver's.
        """
        held = float(self._bytes * self._shape.weights + MASTER_BYTES * self._shape.adapter_weights(self._rank or 0))
        held += self._copies()
        if self._config.objective.magnet or self._config.objective.kl_reference:
            held += self._pass(self._config.optimizer.micro_batch_tokens or LEAST_PASS)
        return Part("copy", 1 if self._beside else 0, held if self._beside else 0.0, "weights that the trainer exports")

    def _driver(self) -> Part:
        """Return the driver's main memory: its copy of each policy, with the optimiser's state unless it is sharded.

        Of a trainer elsewhere it has no optimiser's state either.
        """
        state = state_bytes(self._shape, rank=self._rank, bytes_each=self._bytes)
        if self._config.optimizer.sharded:
            state = float(self._bytes * self._shape.weights)
        if not self._config.trainer.learns_here:
            adapter = MASTER_BYTES * self._shape.adapter_weights(self._rank or 0)
            state = float(self._bytes * self._shape.weights + adapter)
        away = self._moments() if self._config.optimizer.offload and self._learners and self._on_gpu else 0.0
        note = "a copy of each policy" + (", and its moments" if away else "")
        return Part("driver (main memory)", 1, len(self._policies) * (state + away), note)

    def _moments(self) -> float:
        """Return the bytes of a policy's moments, of all shards together."""
        return float(MOMENT_BYTES * (self._shape.adapter_weights(self._rank) if self._rank else self._shape.weights))

    def _play(self, replies: int) -> tuple[float, str]:
        """Return the seconds of an iteration's matches, and what bounds them.

        Tokens read and written over the engines' rates at this many replies in flight; never less than the longest
        match, whose turns are written one after another. An engine of several cards is as fast as all of them.
        """
        tokens, config, engines, base = self._tokens, self._config, self._replicas, self._gpus.card
        card = base._replace(flops=base.flops * self._parallel, bandwidth=base.bandwidth * self._parallel)
        matches = sum(game.matches for game in config.games.values())
        flight = max(min(replies, math.ceil(min(config.in_flight, matches) / engines)), 1)
        context, turns = tokens.prompt + tokens.reply // 2, self._turns()
        step = decoding(self._shape, flight, context)
        reading = prefilling(self._shape, 64, max(tokens.prompt, 1))
        written = turns * tokens.reply / engines
        writing = self._rates.play_seconds(step, card) * written / flight
        read = self._rates.play_seconds(reading, card) * turns * tokens.prompt / engines / reading.tokens
        longest = max(map(_turns, config.games)) * tokens.longest * self._rates.play_seconds(step, card)
        if longest > writing + read:
            return longest, "the longest match"
        return writing + read, f"writing replies ({step.bound(card)})"

    def _learn(self) -> float:
        """Return the seconds of an update: a pass for the old policy, and the steps', over the learners' rate.

        Moments that are away come and go in every step. What a trainer elsewhere takes is its own affair: 0.
        """
        if not self._learners:
            return 0.0
        optimizer, card, tokens = self._config.optimizer, self._gpus.card, self._tokens
        micro = optimizer.micro_batch_tokens or LEAST_PASS
        context = tokens.prompt + tokens.reply
        work = updating(
            self._shape,
            micro,
            lora=self._rank is not None,
            checkpointing=optimizer.checkpointing,
            context=context,
            rank=self._rank or 1,
        )
        rows, steps = self._turns(), optimizer.inner_steps
        whole = rows < 2 * optimizer.minibatch_prompts or steps == 1
        passes = steps if whole else 1 + 1 / 3
        moved = steps * 2 * self._moments() / self._shards() / LINK if optimizer.offload and self._on_gpu else 0.0
        return moved + passes * rows * context / micro * self._rates.update_seconds(work, card) / self._learners

    def _trajectories(self) -> float:
        return sum(g.matches / g.every * make_game(name).spec.seats for name, g in self._config.games.items())

    def _turns(self) -> float:
        """Return the turns of an iteration, of all seats."""
        return sum(g.matches / g.every * _turns(name) for name, g in self._config.games.items())

    def _sent_bytes(self) -> float:
        if self._rank is None:
            return float(self._bytes * self._shape.weights)
        return float(self._bytes * self._shape.adapter_weights(self._rank))

    def _warn(self, replies: int, play: float, learn: float, driver: float, overlaps: bool) -> None:
        """Say what costs time, each with the setting that mends it."""
        config, slots, wanted = self._config, self._slots(), at_once(self._config)
        share = 1 - config.matchmaking.self_play / max(_weights(config), 1e-9)
        if self._rank is not None and slots < wanted and share:
            late = play * share * (math.ceil(wanted / slots) - 1)
            self._warnings.append(
                f"{slots} adapter slots, {wanted} may be asked for: +{late:.0f} s; set engine.vllm.max_loras = {wanted}"
            )
        matches = sum(game.matches for game in config.games.values())
        flight = min(config.in_flight, matches)
        if replies and flight / self._replicas > replies:
            fit = replies * self._replicas
            self._warnings.append(
                f"{flight:,} matches in flight, of which {fit:,} fit; the others wait; set in_flight = {fit}, or "
                "roles.max_reply_tokens lower"
            )
        if not self._learners:
            self._warnings.append(
                "updates are the trainer's, elsewhere: neither its memory nor its seconds are counted"
            )
            return
        if not self._engines:
            self._warnings.append("the servers of engine.vllm_server.urls are taken to be cards such as these")
        of_cluster = "cluster.engines" if on_cluster(config) else "engine.vllm_server.replicas"
        total = max(play, learn)
        for name, busy, setting in (
            ("engines", play, f"fewer {of_cluster} and more optimizer.processes"),
            ("learners", learn, f"more {of_cluster} and fewer optimizer.processes"),
        ):
            if not self._beside and overlaps and busy < BUSY * total and self._gpus.number > 2:
                self._warnings.append(f"{name} work {busy / total:.0%} of the time: set {setting}")
        if not self._beside and not overlaps:
            self._warnings.append(
                "engines and learners wait for one another: set async_learners.max_staleness = 1 and "
                "objective.truncate = 2"
            )
        if driver > max(play, learn) / 3:
            self._warnings.append(f"the driver takes {driver:.0f} s: one process credits all trajectories")
        if self._rank is None and overlaps and share:
            self._warnings.append(
                "whole models take turns in an engine: each opponent's weights are loaded before its matches; set "
                "policies.NAME.weights = 'lora', or matchmaking.self_play = 1"
            )


def _turns(game: str) -> float:
    """Return the turns of a match, of all seats: the most, as matches end with the longest."""
    return float(make_game(game).spec.max_turns)


def _weights(config: RunConfig) -> float:
    from league.config.matchmaking import SharesConfig

    return float(sum(getattr(config.matchmaking, rule) for rule in SharesConfig.model_fields))


def _with_mending(made: RunPlan, config: RunConfig, shape: Shape, gpus: Gpus, tokens: Tokens) -> RunPlan:
    """Return a plan that does not fit with the settings that would let it, if there are any: one, or several."""

    def fits(changed: RunConfig) -> bool:
        return _Planner(changed, shape, gpus, made.rates, tokens).plan().fits

    changes = list(mendings_of(config))
    settings = next(([change.sentence] for change in changes if fits(change.apply(config))), [])
    memory = [change for change in changes if not change.sentence.startswith("engine.")]
    changed, several = config, list[str]()
    for change in memory if not settings else ():
        changed, several = change.apply(changed), [*several, change.sentence]
        shares = (c for c in changes if c.sentence.startswith("engine."))
        share = next((c.sentence for c in shares if fits(c.apply(changed))), None)
        if fits(changed) or share:
            settings = several if fits(changed) else [*several, str(share)]
            break
    advice = f"set {' and '.join(settings)}" if settings else "take more memory, more cards, or a smaller model"
    card = f"{gpus.card.memory / GB:.0f} GB"
    return replace(made, misfits=tuple(f"{sentence}, and a card has {card}: {advice}" for sentence in made.misfits))


def plan_here(config: RunConfig, shape: Shape) -> RunPlan | None:
    """Return a run's plan on the cards that it asks for, each like this machine's; None where those are not known."""
    card = this_machine(config.model.device)
    if card is None:
        return None
    cluster, processes = config.cluster, config.optimizer.processes
    learners = groups(config) * processes if config.trainer.learns_here else 0
    if on_cluster(config):
        asked = (cluster.engines or cluster.workers) * cluster.engine_gpus + learners * cluster.learner_gpus
    else:
        asked = float(spread_of(config).started * spread_of(config).cards + (processes if learners else 0))
    return plan(config, shape, Gpus(max(math.ceil(asked), 1), card))


def side_by_side(plans: Sequence[RunPlan]) -> list[tuple[str, list[str]]]:
    """Return the rows of a table with a column for each plan."""
    rows: list[tuple[str, Callable[[RunPlan], str]]] = [
        ("cards that play", _playing),
        ("cards that learn", lambda p: str(p.learners or "others'")),
        *((f"{part.name}, GB", _part(index)) for index, part in enumerate(plans[0].parts)),
        ("replies in flight an engine", lambda p: f"{p.replies:,}"),
        ("play, s", lambda p: f"{p.play:,.0f}"),
        ("learn, s", lambda p: f"{p.learn:,.0f}" if p.learners else "not counted"),
        ("weights to engines, s", lambda p: f"{p.transfer:,.1f}"),
        ("driver, s", lambda p: f"{p.driver:,.0f}"),
        ("an iteration, s", lambda p: f"{p.seconds:,.0f}" if p.fits else "does not fit"),
        ("bound by", lambda p: p.bound if p.fits else "memory"),
    ]
    return [(name, [value(plan) for plan in plans]) for name, value in rows]


def _playing(plan: RunPlan) -> str:
    if not plan.engines:
        return "others'"
    together = f" ({plan.engines // plan.parallel} x {plan.parallel})" if plan.parallel > 1 else ""
    return f"{plan.engines}{together}{' (and learn)' if plan.beside and plan.learners else ''}"


def _part(index: int) -> Callable[[RunPlan], str]:
    return lambda plan: f"{plan.parts[index].bytes / GB:.1f}"
