"""Games that tell another game otherwise, hand a seat over, or show it late: what a player's skill should outlast.

Each is written ``NAME(GAME)``, or ``NAME(GAME,key=NUMBER,...)``, and says in ``keeps`` what of GAME stays equal.

May import common, spec, openspiel and talk.
"""
