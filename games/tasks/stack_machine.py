"""A tiny stack language, and its interpreter, which always terminates.

A program is words between spaces. A number is pushed; ``dup drop swap over`` move what is on the stack;
``+ - * / %`` take two numbers and leave one (division rounds down); ``< = >`` leave 1 or 0; ``if … else … end`` takes a
number and runs the first part unless it is 0 (``else`` may be left out); ``times … end`` takes a number and runs its
part so often. A program gets one number on the stack and must leave one.

There is nothing else: no name, file, clock or memory besides the stack. Steps, stack, numbers and text are limited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

MOST_STEPS = 10_000
MOST_STACK = 128  # numbers
MOST_NUMBER = 10**12
MOST_CHARACTERS = 1_000  # of a program
MOST_NESTED = 16
_NUMBER = re.compile(r"-?[0-9]{1,12}")
_TWO: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<": lambda a, b: int(a < b),
    "=": lambda a, b: int(a == b),
    ">": lambda a, b: int(a > b),
}
_DIVISIONS: dict[str, Callable[[int, int], int]] = {"/": lambda a, b: a // b, "%": lambda a, b: a % b}
_MOVES = ("dup", "drop", "swap", "over")
_BLOCKS = ("if", "else", "times", "end")
LIMITS = ("it takes more than", "it makes a number beyond", "it has more than")  # how faults begin that are of a limit
WORDS = (*_TWO, *_DIVISIONS, *_MOVES, *_BLOCKS)


class ProgramFault(Exception):
    """What is wrong with a program, as a sentence without its end."""


class Block(NamedTuple):
    """``if`` or ``times``, with its parts."""

    word: str
    parts: tuple[tuple[Word, ...], ...]


Word = str | int | Block


class _Open(NamedTuple):
    """A block whose end has not been read."""

    word: str  # "" of the whole program
    parts: list[list[Word]]


def parse(program: str) -> tuple[Word, ...]:
    """Return a program's words, blocks as such. Raises ProgramFault for what is not a program."""
    if len(program) > MOST_CHARACTERS:
        raise ProgramFault(f"it has more than {MOST_CHARACTERS} characters")
    blocks = [_Open("", [[]])]
    for word in program.split():
        if word in _BLOCKS:
            _open_or_close(word, blocks)
        else:
            blocks[-1].parts[-1].append(_plain(word))
    if len(blocks) > 1:
        raise ProgramFault(f"its {blocks[-1].word} has no end")
    return tuple(blocks[0].parts[0])


def _plain(word: str) -> str | int:
    """Return a word that is no part of a block. Raises ProgramFault for what is not a word."""
    if word in _TWO or word in _DIVISIONS or word in _MOVES:
        return word
    if _NUMBER.fullmatch(word):
        return int(word)
    raise ProgramFault(f"{word[:20]!r} is no word of the language")


def _open_or_close(word: str, blocks: list[_Open]) -> None:
    """Begin a block, move to its second part, or add it to the enclosing block."""
    if word in ("if", "times"):
        if len(blocks) > MOST_NESTED:
            raise ProgramFault(f"it has blocks more than {MOST_NESTED} deep")
        blocks.append(_Open(word, [[]]))
    elif word == "else":
        if blocks[-1].word != "if" or len(blocks[-1].parts) != 1:
            raise ProgramFault("it has an else without an if")
        blocks[-1].parts.append([])
    else:
        if len(blocks) == 1:
            raise ProgramFault("it has an end without a beginning")
        closed = blocks.pop()
        blocks[-1].parts[-1].append(Block(closed.word, tuple(map(tuple, closed.parts))))


def run(program: str, number: int) -> int:
    """Return what a program leaves of a number. Raises ProgramFault for anything but one number within the limits."""
    machine = _Machine(number)
    machine.run(parse(program))
    if len(machine.stack) != 1:
        raise ProgramFault(f"it leaves {len(machine.stack)} numbers in place of one")
    return machine.stack[0]


class _Machine:
    def __init__(self, number: int) -> None:
        self.stack = [number]
        self._left = MOST_STEPS

    def run(self, words: Sequence[Word]) -> None:
        for word in words:
            self._step()
            if isinstance(word, Block):
                self._block(word)
            elif isinstance(word, int):
                self._push(word)
            elif word in _MOVES:
                self._move(word)
            else:
                self._compute(word)

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ProgramFault(f"it takes more than {MOST_STEPS} steps")

    def _block(self, block: Block) -> None:
        number = self._pop()
        if block.word == "times":
            for _ in range(number):
                self._step()
                self.run(block.parts[0])
        elif number:
            self.run(block.parts[0])
        elif len(block.parts) > 1:
            self.run(block.parts[1])

    def _move(self, word: str) -> None:
        if word == "dup":
            number = self._pop()
            moved = [number, number]
        elif word == "drop":
            self._pop()
            moved = []
        else:
            second, first = self._pop(), self._pop()
            moved = [second, first] if word == "swap" else [first, second, first]
        for number in moved:
            self._push(number)

    def _compute(self, word: str) -> None:
        second, first = self._pop(), self._pop()
        if word in _DIVISIONS and not second:
            raise ProgramFault("it divides by 0")
        self._push((_DIVISIONS[word] if word in _DIVISIONS else _TWO[word])(first, second))

    def _push(self, number: int) -> None:
        if abs(number) > MOST_NUMBER:
            raise ProgramFault(f"it makes a number beyond {MOST_NUMBER}")
        if len(self.stack) >= MOST_STACK:
            raise ProgramFault(f"it has more than {MOST_STACK} numbers on the stack")
        self.stack.append(number)

    def _pop(self) -> int:
        if not self.stack:
            raise ProgramFault("it takes a number from an empty stack")
        return self.stack.pop()
