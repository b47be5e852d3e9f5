"""What figures are drawn with: the canvas, shared charts, pictures of commands. The only place for matplotlib.

May import: nothing of the other rooms.
"""
