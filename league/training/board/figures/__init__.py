"""MplFigure: the canvas, shared charts, and the commands' pictures. The only place for matplotlib.

May import: nothing of the other rooms.
"""
