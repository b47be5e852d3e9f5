"""Codes of the signalling game as policies: which word is said of each state, and so which state a word means."""

from games.talk.signalling import INVENTED, STATES
from league.theory.exact.exploitability import PolicyTable, information_positions


def code_table(game, code):
    """Return the policy that says word code[k] of state k, and chooses state k at word code[k]."""
    meant = {f"it is {STATES[state]}.": INVENTED[word] for state, word in enumerate(code)}
    meant |= {f"word {INVENTED[word]}.": STATES[state] for state, word in enumerate(code)}
    rows = {}
    for key, position in information_positions(game).items():
        action = next(action for told, action in meant.items() if position.observe(key[0]).endswith(told))
        pairs = sorted(zip(position.legal_ids(), position.legal_actions(), strict=True))
        rows[key] = tuple(float(name == action) for _, name in pairs)
    return PolicyTable(game, rows)


def code_rows(game, code):
    """Return the same policy as rows of seat, information state and probabilities."""
    return [[*key, *row] for key, row in code_table(game, code).probabilities.items()]
