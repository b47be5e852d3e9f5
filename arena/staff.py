"""The members of one post in a cluster: who is there, and who replaces those that die."""

from __future__ import annotations

from collections.abc import Iterable

from arena.cluster import Call, Cluster, Died, Member, Name, Post
from arena.errors import EngineError

GRACE = 20.0  # seconds to close what one has
MOST_STARTS = 3  # of one member in a row that die before they have done anything


class Staff:
    """A number of members of one post. They are used only once they have answered that they are there."""

    def __init__(self, cluster: Cluster, post: Post, count: int) -> None:
        self._cluster, self.post = cluster, post
        self._members = [cluster.hire(post, number, 0) for number in range(count)]
        self._calls: dict[Call, int] = {}  # members that have not answered yet
        self._failed = [0] * count  # starts in a row
        self.roll_call()

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, number: int) -> Member:
        return self._members[number]

    @property
    def starting(self) -> list[Call]:
        """Who is waited for."""
        return list(self._calls)

    @property
    def there(self) -> list[int]:
        """The numbers of those that have answered."""
        absent = set(self._calls.values())
        return [number for number in range(len(self._members)) if number not in absent]

    def roll_call(self) -> None:
        """Ask all whether they are there, so that nobody who died unnoticed is given work."""
        for number in self.there:
            self._calls[self._members[number].call("there")] = number

    def arrived(self, calls: Iterable[Call]) -> None:
        """Take note of calls in ``starting`` that are done.

        Raises EngineError for a member that never comes, with the reason of the last of its deaths.
        """
        for call in calls:
            if call not in self._calls:
                continue
            number = self._calls.pop(call)
            try:
                self._cluster.get(call)
            except Died as death:
                self._failed[number] += 1
                if self._failed[number] >= MOST_STARTS:
                    raise EngineError(
                        f"{str(death.name).capitalize()} of the cluster died {MOST_STARTS} times before it could do "
                        f"anything, the last time by this: {death.reason}"
                    ) from death
                self._replace(number)
            else:
                self._failed[number] = 0

    def replace(self, name: Name) -> None:
        """Replace a member that died, unless that has happened."""
        if self._members[name.number].name == name:
            self._replace(name.number)

    def dismiss(self) -> None:
        """End all, and let those that are there close what they have."""
        waiting = [self._members[number].call("close") for number in self.there]
        while waiting and (done := self._cluster.done(waiting, GRACE)):
            waiting = [call for call in waiting if call not in done]
        for member in self._members:
            member.dismiss()

    def _replace(self, number: int) -> None:
        old = self._members[number]
        old.dismiss()
        self._members[number] = new = self._cluster.hire(self.post, number, old.name.term + 1)
        self._calls = {call: of for call, of in self._calls.items() if of != number}
        self._calls[new.call("there")] = number
