"""Made-up matches of a game without rules, for what counts and stores them."""

from arena.records import EndReason, Episode, MatchRequest, Turn
from games.common.seeds import derive_seed

GAME = "toy"


def episode(index, players, returns, deal=None, game=GAME, silent=(), rule=""):
    """Return a match in which every seat but the silent ones had one turn, in the role r0, r1, …"""
    deal_seed = derive_seed("deal", index if deal is None else deal)
    request = MatchRequest(index, game, deal_seed, index, players, (True,) * len(players), rule)
    turns = tuple(
        Turn(seat, f"r{seat}", player, "", ("a",), "a", "a", gain, None)
        for seat, (player, gain) in enumerate(zip(players, returns, strict=True))
        if seat not in silent
    )
    return Episode(request, turns, returns, EndReason.FINISHED)
