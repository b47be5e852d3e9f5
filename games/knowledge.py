"""Generated knowledge bases: who is whose teacher, neighbour and so on, with full-text search (SQLite FTS5).

Every relation maps the people onto themselves, one to one and nobody to himself, so "R of P" has one answer, and the
sentence that gives it shares its words with one about the reverse.
"""

from __future__ import annotations

import random
import re
import sqlite3
from functools import cached_property, lru_cache
from typing import NamedTuple

from games.errors import UsageError

PEOPLE = (
    "Ann", "Bob", "Cid", "Dot", "Eve", "Fay", "Gus", "Hal", "Ida", "Jim", "Kay", "Leo",
    "Max", "Nat", "Oli", "Pam", "Quin", "Roy", "Sue", "Tom", "Uma", "Vic", "Wes", "Zoe",
)  # fmt: skip
RELATIONS = ("teacher", "neighbour", "boss", "doctor", "cousin", "friend")
UNKNOWN = "unknown"  # the answer of one who has none
KEPT = 1024  # knowledge bases held at once, each some tens of kilobytes when it has been searched
FOUND = 3  # sentences that a search returns


class Fact(NamedTuple):
    """A question with one answer: "relation of person"."""

    relation: str
    person: str

    def __str__(self) -> str:
        return f"{self.relation} of {self.person}"


class KnowledgeBase:
    """The facts of one deal."""

    def __init__(self, seed: int, people: int, relations: int) -> None:
        rng = random.Random(seed)
        self.people, self.relations = PEOPLE[:people], RELATIONS[:relations]
        self.answers: dict[Fact, str] = {}
        for relation in self.relations:
            ring = rng.sample(self.people, people)  # one circle: nobody is their own
            self.answers |= {Fact(relation, ring[i - 1]): ring[i] for i in range(people)}
        self.sentences = [f"{fact} is {answer}" for fact, answer in self.answers.items()]
        rng.shuffle(self.sentences)

    def search(self, words: str) -> str:
        """Return the sentences that fit any of the words best (BM25), one a line; "nothing found" for none."""
        terms = re.findall(r"\w+", words)[:20]
        query = " OR ".join(f'"{term}"' for term in terms)
        statement = "SELECT text FROM facts WHERE facts MATCH ? ORDER BY rank, rowid LIMIT ?"
        found = self._index.execute(statement, (query, FOUND)).fetchall() if terms else []
        return "\n".join(text for (text,) in found) or "nothing found"

    @cached_property
    def _index(self) -> sqlite3.Connection:
        index = sqlite3.connect(":memory:", check_same_thread=False)  # a tool with a timeout runs on a thread beside
        index.execute("CREATE VIRTUAL TABLE facts USING fts5(text)")
        index.executemany("INSERT INTO facts VALUES (?)", [(one,) for one in self.sentences])
        return index


@lru_cache(maxsize=KEPT)
def knowledge_base(seed: int, people: int, relations: int) -> KnowledgeBase:
    """Return the knowledge base of a deal."""
    return KnowledgeBase(seed, people, relations)


def check_size(people: int, relations: int) -> None:
    """Raise UsageError for a knowledge base that cannot be made."""
    if not 4 <= people <= len(PEOPLE):
        raise UsageError(f"people = {people}: a knowledge base has 4 to {len(PEOPLE)} people.")
    if not 1 <= relations <= len(RELATIONS):
        raise UsageError(f"relations = {relations}: a knowledge base has 1 to {len(RELATIONS)} relations.")
