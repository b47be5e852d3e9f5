"""An attacker's gain against a player, by its means: its policy, the player's observations, the text the player reads.

May import population and theory.
"""
