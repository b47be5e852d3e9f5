"""Policies of the signalling game that keep to a code."""

from games.talk.signalling import INVENTED, STATES
from league.theory.exact.exploitability import uniform_table


def rows_of(code, game):
    """Return the policy that says word code[k] of state k, and chooses state k at word code[k]."""
    means = {f"it is {STATES[state]}.": word for state, word in enumerate(code)}
    means |= {f"word {INVENTED[word]}.": state for state, word in enumerate(code)}
    chosen = {
        key: next(choice for told, choice in means.items() if key[1].endswith(told))
        for key in uniform_table(game).probabilities
    }
    return [[*key, *(float(action == choice) for action in range(3))] for key, choice in chosen.items()]
