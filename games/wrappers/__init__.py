"""Games that reword another game, hand a seat over, or delay observations, to test how robust a player's skill is.

Each is written ``NAME(GAME)``, or ``NAME(GAME,key=NUMBER,...)``, and says in ``keeps`` what of GAME stays equal.

May import common, spec, openspiel and talk.
"""
