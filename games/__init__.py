"""Games: their rules as seats, legal actions, observations and returns, by name, and as PettingZoo environments.

May import no other package of the project: nothing here knows prompts or models.
"""
