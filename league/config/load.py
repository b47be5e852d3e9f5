"""A run's configuration: read from a preset or a TOML file, changed by ``--set``, and written back.

Every mistake is a ``UsageError`` with the key, the value, and the expected value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from arena.gpus import Gpu, find_gpu, multiplies_bfloat16
from games.common import plugins
from games.common.errors import UsageError, unknown_name
from games.common.files import atomic_write, parse_toml, read_toml
from games.common.validation import validated
from games.outside.as_played import is_outside
from games.registry import make_game, with_submatches
from games.spec import GameSpec
from league.config import CONFIG_FILE
from league.config.checks.config import check_config
from league.config.former import from_stored, refuse_former
from league.config.other_games import resolve_names, with_games, without_other_teachers
from league.config.plugins import config_model, prepared, used_plugins
from league.config.run import MEASURED, ModelConfig, RolesConfig, RunConfig
from roles.cards import load_roles, with_overrides
from roles.role import Role, Roles, Wording, bound_policies
from roles.wording import wording_for

LAYOUT = 3  # version of a run directory's files; the first line of its ``config.toml``
PRESETS = Path(__file__).parent.parent / "presets"

CPU_TOKENS = 1024  # in a pass of an update: larger ones are no faster there, and take more memory
MOST_TOKENS = 32_768
USUAL_MEMORY = 80 * 10**9  # bytes of a GPU whose memory is not known, such as another machine's
# What a token of a pass takes: under checkpointing every layer's input and the insides of one (Qwen3-4B: 11 GB for
# 32,768 tokens), else the insides of all layers (SmolLM2 in float32: about 17,000 numbers in each of 30 layers).
BYTES_CHECKPOINTED, BYTES_KEPT = 350_000, 2_000_000
SHARE = 0.25  # of a GPU's memory for a pass, beside weights, optimiser, and the engine's keys and values


def preset_names() -> list[str]:
    """Return the names of the presets that come with the project."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def preset_table(name: str) -> dict[str, Any]:
    """Return what a preset's file sets, as it is written."""
    return _read_toml(PRESETS / f"{name}.toml")


def load(
    source: str,
    overrides: Sequence[str] = (),
    wording: str = "full",
    tell: Callable[[str], object] | None = None,
    games: Sequence[str] = (),
    *,
    makes: bool = True,
) -> RunConfig:
    """Return the configuration of a preset or a ``.toml`` file, with ``key=value`` overrides applied in order.

    ``games``, if any, replace its games before overrides are applied. ``wording`` is the wording of a pretrained
    model's roles, unless the file states one. Settings left to the machine are chosen, and ``tell`` is called with a
    sentence on them. With ``makes`` False, games of other libraries are not loaded, and a configuration that has some
    is not checked against its games. Raises UsageError for an unknown preset, key, game or role, for TOML that cannot
    be read, and for values or combinations that the configuration refuses.
    """
    data = _own_data(_find_file(source))
    if games:
        data = with_games(data, games, source)
    given = [parse_override(override) for override in overrides]
    for number, (keys, value) in enumerate(given):
        before = data.get("games")
        _set_key(data, keys, value)
        if before is not None and data["games"] is not before and isinstance(data["games"], dict):
            data = without_other_teachers(data)
            for earlier, stated in given[:number]:  # what is asked for is not the preset's
                if earlier[0] == "objective":
                    _set_key(data, earlier, stated)
    resolve_names(data)
    config = _fitted(_with_wordings(_validated(data, source, bool(overrides)), wording), tell)
    if not makes and any(map(is_outside, config.games)):
        return config
    check_config(config, run_roles(config))
    needed = [*config.plugins, *(name for name in used_plugins(config) if name not in config.plugins)]
    plugins.require(needed)
    return config.model_copy(update={"plugins": tuple(needed)}) if needed else config


def _validated(data: dict[str, Any], source: str, changed: bool) -> RunConfig:
    """Return the data as a configuration. Raises UsageError that names the file, if the mistake is in the file."""
    try:
        return validate(data)
    except UsageError as error:
        path = _find_file(source)
        if type(error) is not UsageError or path.parent == PRESETS or (changed and not _is_wrong(path, str(error))):
            raise
        raise UsageError(f"{path}: {error}") from None


def _is_wrong(path: Path, sentence: str) -> bool:
    """Return whether the mistake is in a file itself."""
    data = _own_data(path)
    try:
        resolve_names(data)
        validate(data)
    except UsageError as error:
        return str(error) == sentence
    return False


def _with_wordings(config: RunConfig, wording: str) -> RunConfig:
    """Return the configuration with its roles' wording stated, where models are pretrained.

    ``wording`` is the one for a pretrained model's roles. A wording that is already stated stays.
    """
    if config.roles.wording is not None:
        return config

    def worded(source: str) -> str:
        return "brief" if wording_for(source) is Wording.BRIEF else wording

    of_run = worded(config.model.source)
    by_policy = {name: worded(config.model_of(name).source) for name, policy in config.policies.items() if policy.model}
    others = {name: style for name, style in by_policy.items() if style != of_run} | config.roles.wordings
    stated = {"wording": of_run if others or of_run != "brief" else None, "wordings": others}
    return config.model_copy(update={"roles": config.roles.model_copy(update=stated)})


def _fitted(config: RunConfig, tell: Callable[[str], object] | None) -> RunConfig:
    """Return the configuration with the settings that it leaves to this machine filled in."""
    config = config.model_copy(update={"threads": threads_for(config.threads, config.optimizer.processes)})
    models = [config.model, *map(config.model_of, config.policies)]
    if all("auto" not in (m.device, m.dtype) for m in models) and config.optimizer.micro_batch_tokens:
        return config
    gpu = find_gpu()
    config = chosen(config, gpu)
    if tell is not None:
        tell(sentence(config, gpu))
    return config


def threads_for(threads: int, processes: int) -> int:
    """Return the threads of each process of a run that begins here: measured where OMP_NUM_THREADS does not say."""
    if threads != MEASURED:
        return threads
    if os.environ.get("OMP_NUM_THREADS"):
        return 0
    from arena.process import available_cores, measured_threads  # torch is slow to import

    return measured_threads(max(available_cores() // processes, 1))


def chosen(config: RunConfig, gpu: Gpu | None) -> RunConfig:
    """Return the configuration with ``auto`` devices and types, and 0 tokens for a pass, chosen for the machine.

    vLLM needs a GPU, so a run that uses it has one, here or on the machines of a cluster, or is refused later. On a
    processor only frozen weights under masked replies are in bfloat16, where it multiplies that: those passes are of
    ``arena.lm.adapted_pass``, in which adapters and states stay in single precision.
    """
    adapted = bool(config.policies) and all(config.policy(name).adapted for name in config.policies)
    adapted &= "free" not in (config.roles.reply, config.distilled_roles.reply)

    def placed(model: ModelConfig) -> ModelConfig:
        device, dtype = model.device, model.dtype
        if device == "auto":
            device = "cuda" if gpu is not None or config.engine.wants_gpu else "cpu"
        if dtype == "auto":
            on_cpu = device == "cpu" and model.source != "pocket" and adapted and multiplies_bfloat16()
            dtype = "bfloat16" if device.startswith("cuda") or on_cpu else "float32"
        return model.model_copy(update={"device": device, "dtype": dtype})

    fitting, optimizer = config.with_models(placed), config.optimizer
    in_memory = CPU_TOKENS if fitting.devices == {"cpu"} else gpu_tokens(config, gpu)
    tokens = optimizer.micro_batch_tokens or in_memory
    return fitting.model_copy(update={"optimizer": optimizer.model_copy(update={"micro_batch_tokens": tokens})})


def gpu_tokens(config: RunConfig, gpu: Gpu | None) -> int:
    """Return the greatest power of two of tokens whose pass fits into its share of a GPU's memory."""
    each = BYTES_CHECKPOINTED if config.optimizer.checkpointing else BYTES_KEPT
    tokens = max(int(SHARE * (gpu.memory if gpu is not None else USUAL_MEMORY)) // each, 1)
    return int(min(1 << (tokens.bit_length() - 1), MOST_TOKENS))


def sentence(config: RunConfig, gpu: Gpu | None) -> str:
    """Return a sentence that says what was chosen."""
    threads = config.threads or os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1
    gpu_words = f"{gpu.name}, {gpu.memory / 1e9:.0f} GB" if gpu is not None else "no GPU was found"
    run = f"{config.model.device}, {config.model.dtype}"
    by_policy = {
        name: f"{model.device}, {model.dtype}" for name in config.policies for model in [config.model_of(name)]
    }
    others = "".join(f" ({name}: {words})" for name, words in by_policy.items() if words != run)
    return (
        f"Chosen for this machine ({gpu_words}): device {run}{others}, threads {threads}, "
        f"{config.optimizer.micro_batch_tokens:,} tokens in a pass of an update."
    )


def load_run_config(run_dir: Path, overrides: Sequence[str] = (), *, makes: bool = True) -> RunConfig:
    """Return the configuration of a run directory, with overrides; ``makes`` as in ``load``.

    Raises UsageError for another layout, and for plugins that the user did not choose, or that are in the directory.
    """
    path = run_dir / CONFIG_FILE
    layout = _read_toml(path).get("layout", 1)
    if layout != LAYOUT:
        older = isinstance(layout, int) and layout < LAYOUT
        how = "an older version wrote it: train a new run, or read it with" if older else "read it with"
        raise UsageError(
            f"{run_dir} has layout {layout}, and this league reads layout {LAYOUT}; {how} the version that made it."
        )
    plugins.require(plugins_in(run_dir), foreign=[run_dir])
    return load(str(path), overrides, wording="brief", makes=makes)  # as before full wordings existed


def plugins_in(run_dir: Path) -> list[str]:
    """Return the plugins that a run directory's configuration names; its other mistakes are reported elsewhere."""
    try:
        listed = _read_toml(run_dir / CONFIG_FILE).get("plugins", [])
    except (OSError, UsageError):
        return []
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []


def write_run_config(run_dir: Path, config: RunConfig) -> None:
    """Write a run directory's configuration, with the layout of the directory."""
    atomic_write(run_dir / CONFIG_FILE, f"layout = {LAYOUT}\n{to_toml(config)}")


def validate(data: Mapping[str, Any]) -> RunConfig:
    """Return ``data`` as a configuration. Raises UsageError with one sentence for each mistake."""
    refuse_former(data)
    table = prepared(data)
    return validated(config_model(), table)


def to_toml(config: RunConfig) -> str:
    """Return the configuration as TOML text that loads back equal. Keys without a value are left out."""
    return tomli_w.dumps(config.model_dump(exclude_none=True))


def parse_override(text: str) -> tuple[list[str], Any]:
    """Return the keys and the value of an override ``a.b.c=value``.

    A key may be quoted; dots and equal signs within parentheses belong to a game's name. The value
    is TOML, or else a string, so that words need no quotes.
    """
    keys: list[str] = []
    key, depth, quote = "", 0, ""
    for index, char in enumerate(text):
        if char == "=" and not depth and not quote:
            return [*keys, key.strip()], _parse_value(text[index + 1 :].strip())
        if char in (quote or "\"'"):
            quote = "" if quote else char
        elif char == "." and not depth and not quote:
            keys.append(key.strip())
            key = ""
        else:
            depth += (char == "(") - (char == ")")
            key += char
    raise UsageError(f"--set {text}: it has no '='. Write --set key=value, for example --set iterations=50.")


def run_roles(config: RunConfig) -> dict[str, tuple[Role, ...]]:
    """Return a run's roles by game and seat: of its games, then of their submatches' games."""
    games, probes = with_submatches(config.games), config.beliefs.asked
    return {game: seat_roles(config.roles, make_game(game).spec, probes=probes) for game in games}


def seat_roles(config: RolesConfig, spec: GameSpec, *, probes: bool = False) -> tuple[Role, ...]:
    """Return a game's roles by seat, from role cards and overrides; with their probes if ``probes``.

    Raises UsageError for an invalid card or override.
    """
    cards = Path(config.cards).expanduser() if config.cards else None
    names = [spec.name, _inmost(spec)]  # the player of a wrapped game plays its wrapper too
    wording = config.wording or "brief"
    worded = {style: load_roles(spec, cards, style, probes=probes) for style in {wording, *config.wordings.values()}}
    policies = [_given_to(config.policy, names, role) or role.policy for role in worded[wording]]
    stated = {"timeout": config.tool_timeout, "in_flight": config.tool_calls, "retries": config.tool_retries}
    limits = {name: limit for name, limit in stated.items() if limit is not None}
    return tuple(
        with_overrides(
            _with_tool_limits(role, limits),
            reply=config.reply,
            on_illegal=config.on_illegal,
            retries=config.retries,
            price=config.price,
            max_reply_tokens=config.max_reply_tokens,
            temperature=config.temperature,
            top_k=config.top_k,
            top_p=config.top_p,
            min_p=config.min_p,
            policy=_given_to(config.policy, names, role),
            player=_given_to(config.player, names, role),
            demonstrations=config.demonstrations,
        )
        for policy, *by_wording in zip(policies, *worded.values(), strict=True)
        for role in [dict(zip(worded, by_wording, strict=True))[config.wordings.get(policy, wording)]]
    )


def _with_tool_limits(role: Role, limits: Mapping[str, float]) -> Role:
    """Return a role whose tools have other limits than its card gives them."""
    tools = tuple([tool.model_copy(update=limits) for tool in role.tools])
    return role.model_copy(update={"tools": tools}) if limits and tools else role


def _inmost(spec: GameSpec) -> str:
    """Return the name of the game inside all wrappers; a game that is not a wrapper keeps its name."""
    while spec.inner:
        spec = make_game(spec.inner).spec
    return spec.name


def _given_to(names: Mapping[str, str], games: Sequence[str], role: Role) -> str | None:
    """Return a table's entry for game/role, by the first of these games that it has."""
    return next((names[key] for game in games if (key := f"{game}/{role.name}") in names), None)


def _find_file(source: str) -> Path:
    if source in preset_names():
        return PRESETS / f"{source}.toml"
    path = Path(source).expanduser()
    if path.is_file():
        return path
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise UsageError(f"There is no file {source}. Presets are named without a path: {', '.join(preset_names())}.")
    raise unknown_name("preset", source, preset_names(), "Your own file must end in .toml.")


def _own_data(path: Path) -> dict[str, Any]:
    """Return what a file sets; of a run directory's file, from which a new run may start too, in today's keys."""
    data = _read_toml(path)
    return data if data.pop("layout", None) is None else from_stored(data)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except ValueError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.") from None


def _parse_value(text: str) -> Any:
    try:
        parsed = parse_toml(f"value = {text}")
    except ValueError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _set_key(data: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    """Set a value in nested tables, and make the tables that are missing."""
    for depth, key in enumerate(keys[:-1], 1):
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            path = ".".join(keys[:depth])
            raise UsageError(f"--set {'.'.join(keys)}: {path} is a single value, so it has no keys below it.")
    data[keys[-1]] = value


def policy_names(config: RunConfig, roles: Roles) -> list[str]:
    """Return the names of the policies that roles bind to, each once, and then of the exploiters."""
    return list(dict.fromkeys([*bound_policies(roles), *config.league_roles]))
