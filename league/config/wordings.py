"""Which wording the roles of a run have, by the models that its policies begin from."""

from __future__ import annotations

from league.config.run import RunConfig
from roles.role import Wording
from roles.wording import wording_for


def with_wordings(config: RunConfig, wording: str) -> RunConfig:
    """Return the configuration with its roles' wording stated, where models are pretrained ones.

    ``wording`` is that of a pretrained model's roles. What is stated already stays.
    """
    if config.roles.wording is not None:
        return config

    def worded(source: str) -> str:
        return "brief" if wording_for(source) is Wording.BRIEF else wording

    of_run = worded(config.model.source)
    own = {name: worded(config.model_of(name).source) for name, policy in config.policies.items() if policy.model}
    others = {name: said for name, said in own.items() if said != of_run} | config.roles.wordings
    stated = {"wording": of_run if others or of_run != "brief" else None, "wordings": others}
    return config.model_copy(update={"roles": config.roles.model_copy(update=stated)})
