"""What seats say to each other: who hears what, and how it is shown.

What a seat says reaches others as one quoted line behind its name, never as an instruction: line breaks, control
characters, direction and zero-width marks are taken out, and quotation marks are escaped, so that nothing a seat says
can end its quotation. Special tokens are broken up where text becomes tokens
(``roles.chat_text.break_special_tokens``). Everything here is immutable, so that copies of a match share it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import partial
from typing import NamedTuple

from games.spec import Choices, FreeText

THINK_ALOUD = '; if you think aloud first, put what you say behind "Answer: "'  # of ``FreeText`` that ``thinks``
BIDS = Choices(("speak", "pass"), (0, 1))
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»＂〝〞〟❝❞", '"'))
_SPACES = {"Cc", "Zl", "Zp", "Zs"}  # unicode categories that become a blank
_REMOVED = {"Cf", "Cs", "Co", "Cn"}  # direction and zero-width marks, half letters, private and unassigned ones
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\uffa0")  # of other categories


class Channel(NamedTuple):
    """Who hears what is said. The speaker always does."""

    name: str  # as lines name it; "" for what all hear
    seats: tuple[int, ...] | None  # None: every seat, and who looks on


PUBLIC = Channel("", None)
SPECTATORS = Channel("spectators", ())  # who looks on hears it, and no other seat


def team(name: str, *seats: int) -> Channel:
    """Return the channel of a team, or of a single seat."""
    return Channel(name, seats)


class Message(NamedTuple):
    """One utterance."""

    speaker: int
    channel: Channel
    text: str


class Conversation(NamedTuple):
    """All that was said in a match so far."""

    names: tuple[str, ...]  # of the seats  # [seats]
    messages: tuple[Message, ...] = ()

    def say(self, speaker: int, text: str, channel: Channel = PUBLIC) -> Conversation:
        """Return the conversation with one utterance more."""
        return self._replace(messages=(*self.messages, Message(speaker, channel, text)))

    def heard(self, seat: int | None) -> tuple[Message, ...]:
        """Return what a seat has heard or said itself; for None, what those hear who look on."""
        return tuple([message for message in self.messages if _hears(seat, message)])

    def lines(self, seat: int | None) -> tuple[str, ...]:
        """Return what a seat has heard or said, an utterance a line: the speaker's name, the channel, the quotation."""
        return tuple([self._line(message, seat) for message in self.heard(seat)])

    def _line(self, message: Message, seat: int | None) -> str:
        speaker = "you" if message.speaker == seat else self.names[message.speaker]
        to = f" to {message.channel.name}" if message.channel.name else ""
        return f"{speaker}{to}: {quoted(message.text)}"


def _hears(seat: int | None, message: Message) -> bool:
    heard_by = message.channel.seats
    if seat is None:
        return heard_by is None or message.channel == SPECTATORS
    return seat == message.speaker or heard_by is None or seat in heard_by


def utterance(text: str, most: int) -> str | None:
    """Return a text as the one line that others may see of it; None if nothing is left, or more than ``most`` letters.

    Idempotent: an utterance is its own utterance.
    """
    letters = [" " if _is_space(letter) else letter for letter in text.translate(_QUOTES) if not _is_removed(letter)]
    line = " ".join("".join(letters).split())
    return line if 0 < len(line) <= most else None


def _is_space(letter: str) -> bool:
    return unicodedata.category(letter) in _SPACES


def _is_removed(letter: str) -> bool:
    return letter in _INVISIBLE or unicodedata.category(letter) in _REMOVED


def quoted(text: str) -> str:
    """Return an utterance in quotation marks, which nothing in it can end."""
    escaped = re.sub(r'(["\\])', r"\\\1", text)
    return f'"{escaped}"'


def unquoted(text: str) -> str:
    """Return a text without what it quotes, which is not its own word; of a text that is one quotation, its inside."""
    if text.count('"') == 2 and text.startswith('"') and text.endswith('"'):
        return text[1:-1]
    return re.sub(r'"[^"]*"?', " ", text)


def addresses_all(line: str) -> bool:
    """Return whether a line says the same to all who are shown it (``games.abilities.MarksPublic``).

    One that calls its reader "you", outside what it quotes, does not.
    """
    return re.search(r"(?i)\byour?\b", unquoted(line)) is None


def speech(most: int, to: str = "all") -> FreeText:
    """Return the request for an utterance of at most ``most`` characters; its action is the utterance."""
    return FreeText(
        most, f"what you say to {to}, in one line of at most {most} characters", partial(utterance, most=most)
    )


class Discussion(NamedTuple):
    """Rounds of talk: every seat in turn, or only those that ask to speak.

    With ``bids`` every seat of a round first says, unseen, whether it wants to speak: a choice of ``BIDS``, which costs
    a few tokens where a speech costs many. Then those that want to speak do, in order.
    """

    seats: tuple[int, ...]  # in the order in which they speak
    rounds: int
    bids: bool = False
    wants: tuple[bool, ...] = ()  # bids of this round so far
    spoken: int = 0  # how many have spoken in this round

    @property
    def over(self) -> bool:
        """Whether all rounds have been spoken."""
        return self.rounds == 0

    @property
    def bidding(self) -> bool:
        """Whether the next turn is a bid."""
        return not self.over and self.bids and len(self.wants) < len(self.seats)

    def to_act(self) -> int | None:
        """Return the seat that bids or speaks next; None when the discussion is over."""
        if self.over:
            return None
        return self.seats[len(self.wants)] if self.bidding else self._speakers()[self.spoken]

    def bid(self, wants: bool) -> Discussion:
        """Return the discussion after a bid."""
        return self._replace(wants=(*self.wants, wants))._settled()

    def spoke(self) -> Discussion:
        """Return the discussion after a speech."""
        return self._replace(spoken=self.spoken + 1)._settled()

    def _speakers(self) -> tuple[int, ...]:
        if not self.bids:
            return self.seats
        return tuple([seat for seat, wants in zip(self.seats, self.wants, strict=True) if wants])

    def _settled(self) -> Discussion:
        """Return the discussion in its next round, if this one is over."""
        if self.bidding or self.spoken < len(self._speakers()):
            return self
        return self._replace(rounds=self.rounds - 1, wants=(), spoken=0)
