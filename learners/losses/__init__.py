"""The loss of an update: its terms, one a file, and their sum over a batch.

May import the files at the root of learners, ``advantages`` and ``parallel``.

``objective.name`` chooses a surrogate from ``LOSSES``; an auxiliary loss from ``AUXILIARY`` is added where it has a
weight. Both are terms of ``learners.losses.term``.
"""

from __future__ import annotations

from games.common.registry import Registry
from learners.losses.contrast import CONTRAST
from learners.losses.distillation import DISTILL
from learners.losses.dmpo import DMPO
from learners.losses.dpo import DPO
from learners.losses.imitation import IMITATION
from learners.losses.kto import KTO
from learners.losses.listening import LISTENING
from learners.losses.policy_gradient import GSPO, PPO, REINFORCE
from learners.losses.prediction import PREDICTION
from learners.losses.term import LossTerm

AUXILIARY = {
    "imitation": IMITATION,
    "listening": LISTENING,
    "prediction": PREDICTION,
    "contrast": CONTRAST,
    "distill": DISTILL,
}
KEYS = (  # of [objective], beside the settings of our own surrogates
    "name",
    "normalisation",
    "length",
    "truncate",
    "mismatch",
    "mismatch_low",
    "mismatch_high",
    "policy_gradient",
    "distill",
    "distill_end",
    "schedule",
    "kl_old",
    "kl_old_end",
    "kl_reference",
    "kl_estimator",
    "entropy",
    "entropy_end",
    "epo",
    "epo_end",
    "epo_ends",
    "magnet",
    "magnet_end",
    "magnet_every",
    "magnet_uniform",
    "magnet_rule",
)
_OWN = {"reinforce": REINFORCE, "ppo": PPO, "gspo": GSPO, "dpo": DPO, "dmpo": DMPO, "kto": KTO}
LOSSES = Registry(
    "losses",
    "loss",
    LossTerm,
    "objective.name",
    _OWN,
    reserved=(*KEYS, *AUXILIARY, *(key for entry in _OWN.values() for key in entry.settings.model_fields)),
    flat="own",
)
register = LOSSES.register


def term_named(name: str) -> LossTerm:
    """Return a term of a batch by its name."""
    return AUXILIARY[name] if name in AUXILIARY else LOSSES[name]
