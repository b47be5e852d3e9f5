"""Questions to seats that are not moves, noted while a match is played and asked when it is over.

May import games and roles; within arena: errors, records.
"""
