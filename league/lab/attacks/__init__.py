"""What an attacker wins from a player by what he may do: his policy, what the player is shown, what it is told.

May import population and theory.
"""
