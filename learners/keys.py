"""Several names as one key of JSON data, whose keys are strings: of a game, a role and a policy, say."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)  # credit asks for the same few keys for every trajectory
def join_names(*names: str) -> str:
    """Return names with "/" between them; "/" and "%" within a name are written "%2F" and "%25".

    So different names never have the same key.
    """
    return "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)


def split_names(key: str) -> tuple[str, ...]:
    """Return the names that ``join_names`` joined."""
    return tuple([part.replace("%2F", "/").replace("%25", "%") for part in key.split("/")])
