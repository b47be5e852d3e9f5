"""Generated knowledge bases: facts such as "teacher of Ann is Bob", with full-text search (SQLite FTS5).

Every relation is a cyclic permutation of the people, so "R of P" has one answer that is not P, and a search for the
sentence that gives it also finds the one in which P is the answer.
"""

from __future__ import annotations

import random
import re
import sqlite3
from functools import cached_property, lru_cache
from typing import NamedTuple

from games.common.errors import UsageError

PEOPLE = (
    "Ann", "Bob", "Cid", "Dot", "Eve", "Fay", "Gus", "Hal", "Ida", "Jim", "Kay", "Leo",
    "Max", "Nat", "Oli", "Pam", "Quin", "Roy", "Sue", "Tom", "Uma", "Vic", "Wes", "Zoe",
)  # fmt: skip
RELATIONS = ("teacher", "neighbour", "boss", "doctor", "cousin", "friend")
UNKNOWN = "unknown"  # the reply of a player that has no answer
CACHED = 1024  # knowledge bases in memory at most, each some tens of kilobytes once it has been searched
SEARCH_RESULTS = 3  # sentences that a search returns at most


class Fact(NamedTuple):
    """A question with one answer: "relation of person"."""

    relation: str
    person: str

    def __str__(self) -> str:
        return f"{self.relation} of {self.person}"


class KnowledgeBase:
    """The facts of one deal: ``answers`` by fact, and ``sentences`` in a random order."""

    def __init__(self, seed: int, people: int, relations: int) -> None:
        rng = random.Random(seed)
        self.people, self.relations = PEOPLE[:people], RELATIONS[:relations]
        self.answers: dict[Fact, str] = {}
        for relation in self.relations:
            ring = rng.sample(self.people, people)  # one cycle: nobody is their own
            self.answers |= {Fact(relation, ring[i - 1]): ring[i] for i in range(people)}
        self.sentences = [f"{fact} is {answer}" for fact, answer in self.answers.items()]
        rng.shuffle(self.sentences)

    def search(self, words: str) -> str:
        """Return the best matches of any of the words (BM25), one sentence a line; "nothing found" for none."""
        terms = re.findall(r"\w+", words)[:20]
        query = " OR ".join(f'"{term}"' for term in terms)
        statement = "SELECT text FROM facts WHERE facts MATCH ? ORDER BY rank, rowid LIMIT ?"
        rows = self._index.execute(statement, (query, SEARCH_RESULTS)).fetchall() if terms else []
        return "\n".join(text for (text,) in rows) or "nothing found"

    @cached_property
    def _index(self) -> sqlite3.Connection:
        index = sqlite3.connect(":memory:", check_same_thread=False)  # cached, so matches on other threads use it too
        index.execute("CREATE VIRTUAL TABLE facts USING fts5(text)")
        index.executemany("INSERT INTO facts VALUES (?)", [(sentence,) for sentence in self.sentences])
        return index


@lru_cache(maxsize=CACHED)
def knowledge_base(seed: int, people: int, relations: int) -> KnowledgeBase:
    """Return the knowledge base of a deal."""
    return KnowledgeBase(seed, people, relations)


def search_call(words: object) -> str:
    """Return the tool call that searches a knowledge base for some words."""
    return f'search("{words}")'


def check_size(people: int, relations: int) -> None:
    """Raise UsageError for a size that no knowledge base can have."""
    if not 4 <= people <= len(PEOPLE):
        raise UsageError(f"people = {people}: a knowledge base has 4 to {len(PEOPLE)} people.")
    if not 1 <= relations <= len(RELATIONS):
        raise UsageError(f"relations = {relations}: a knowledge base has 1 to {len(RELATIONS)} relations.")
