"""A fixed list of realistic bugs that are never used in training: tasks of ``repair``.

Each is one wrong word: a wrong sign, a number off by one, a sum for a product, a copy in place of a swap. Their right
programs are dealt by ``repair`` and ``inject_repair`` in no match of training (``bugs.deal_right_program``).
"""

HELD_OUT = (
    "-3 -> -6 ; 2 -> 4 ; 5 -> 10 ; 8 -> 16 | dup * | dup +",  # multiplies instead of adding
    "-3 -> 9 ; 2 -> 4 ; 5 -> 25 ; 8 -> 64 | dup + | dup *",  # adds instead of multiplying
    "-3 -> -9 ; 2 -> 6 ; 5 -> 15 ; 8 -> 24 | 2 * | 3 *",  # wrong factor
    "-3 -> 0 ; 2 -> 5 ; 5 -> 8 ; 8 -> 11 | 2 + | 3 +",  # off by one
    "-3 -> -4 ; 2 -> 1 ; 5 -> 4 ; 8 -> 7 | 1 + | 1 -",  # wrong sign
    "-3 -> 4 ; 2 -> -1 ; 5 -> -4 ; 8 -> -7 | 1 over - | 1 swap -",  # copies instead of swapping
    "-3 -> -5 ; 2 -> 5 ; 5 -> 11 ; 8 -> 17 | 2 * 2 + | 2 * 1 +",  # off by one
    "-3 -> 6 ; 2 -> 6 ; 5 -> 30 ; 8 -> 72 | dup dup + + | dup dup * +",  # a sum for a product
    "-3 -> 12 ; 2 -> 2 ; 5 -> 20 ; 8 -> 56 | dup dup * over - | dup dup * swap -",  # copies instead of swapping
    "-3 -> -6 ; 2 -> 9 ; 5 -> 18 ; 8 -> 27 | 1 + 2 * | 1 + 3 *",  # wrong factor
    "-3 -> 10 ; 2 -> 5 ; 5 -> 26 ; 8 -> 65 | dup + 1 + | dup * 1 +",  # doubles instead of squaring
    "-3 -> 8 ; 2 -> 3 ; 5 -> 24 ; 8 -> 63 | dup * 1 + | dup * 1 -",  # wrong sign
    "-3 -> 5 ; 2 -> 0 ; 5 -> -3 ; 8 -> -6 | 2 swap + | 2 swap -",  # wrong sign
    "-3 -> -2 ; 2 -> 8 ; 5 -> 14 ; 8 -> 20 | 2 - 2 * | 2 + 2 *",  # wrong sign
    "-3 -> -27 ; 2 -> 8 ; 5 -> 125 ; 8 -> 512 | dup dup * + | dup dup * *",  # the last step of another formula
    "-3 -> -11 ; 2 -> 4 ; 5 -> 13 ; 8 -> 22 | 3 * 3 - | 3 * 2 -",  # off by one
    "-3 -> -12 ; 2 -> 8 ; 5 -> 20 ; 8 -> 32 | dup + 2 + | dup + 2 *",  # adds instead of multiplying
    "-3 -> 3 ; 2 -> 8 ; 5 -> 35 ; 8 -> 80 | dup 2 * * | dup 2 + *",  # multiplies too early
    "-3 -> 4 ; 2 -> 9 ; 5 -> 36 ; 8 -> 81 | 1 + dup + | 1 + dup *",  # doubles instead of squaring
    "-3 -> 16 ; 2 -> 1 ; 5 -> 16 ; 8 -> 49 | 1 + dup * | 1 - dup *",  # wrong sign
    "-3 -> 12 ; 2 -> 2 ; 5 -> -4 ; 8 -> -10 | 3 swap - 3 * | 3 swap - 2 *",  # wrong factor
    "-3 -> 0 ; 2 -> 10 ; 5 -> 40 ; 8 -> 88 | dup 3 + + | dup 3 + *",  # adds instead of multiplying
    "-3 -> 12 ; 2 -> 2 ; 5 -> 20 ; 8 -> 56 | dup 1 - - | dup 1 - *",  # repeats the sign before
    "-3 -> -18 ; 2 -> 12 ; 5 -> 30 ; 8 -> 48 | 2 * 3 + | 2 * 3 *",  # adds instead of multiplying
)
