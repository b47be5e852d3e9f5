"""``hidden_roles``: wolves sit among villagers, who talk and vote to find them (Werewolf, Mafia, Among Us).

Who is who is drawn and hidden: every seat gets a name at the table, and only the wolves know each other. With
``sight`` above 0 each villager has a clue: this many times in 100 it names a wolf, else anyone else at random; what
Bayes' rule makes of clues and claims is a formula (``games.talk.suspicion``). By day the living talk for ``rounds``
rounds, in order or, with ``bids=1``, those that ask to; then they vote, unseen. Who has more votes than any other, and
than "nobody", is out, and all see what it was. By night the wolves whisper and take a villager. The village wins when
no wolf is left; the wolves win when they are as many as the villagers, or after ``days`` days. Who wins, in or out,
earns 1, and who loses -1.

The first seats are the wolves: one, or two of six or more. No seat sees which name is which seat's. With ``form=0``
seats speak in their own words, with ``form=1`` they choose whom they say they suspect;
``hidden_roles(seats=3,days=1,form=1)`` is small enough for exact values.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from games.abilities import Answers
from games.common.errors import UsageError
from games.native.dealt import DealtGame, numbers_from
from games.native.names import game_name
from games.spec import Choices, FreeText, GameSpec, Utility
from games.talk import hidden_roles_players as players
from games.talk.conversation import BIDS, PUBLIC, Conversation, Discussion, addresses_all, speech, team
from games.talk.hidden_roles_players import Scene, View
from games.talk.suspicion import NOBODY, SUSPECT, TAKE, VOTE, Deal, first_claims, posterior

NAMES = ("Ann", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ira")
MOST_CHARACTERS = 300  # of what is said in a turn


class HiddenRoles(DealtGame):
    """One match of ``hidden_roles``. A place is a name's index; who sits at a place is hidden."""

    _alive: tuple[int, ...]  # places, in order
    _past: tuple[tuple[Conversation, str], ...]  # what was said in each day or night that is over, and how it ended
    _talk: Conversation  # of this day or night
    _discussion: Discussion
    _votes: tuple[int | None, ...]  # of this day, by place in order; None: for nobody
    _asked: tuple[tuple[int, bool], ...]  # bids to speak: (place, whether it wants to)

    def __init__(
        self, seats: int = 5, days: int = 2, rounds: int = 1, sight: int = 20, bids: int = 0, form: int = 0
    ) -> None:
        settings = {"seats": seats, "days": days, "rounds": rounds, "sight": sight, "bids": bids, "form": form}
        name = game_name("hidden_roles", HiddenRoles, **settings)
        fits = 3 <= seats <= len(NAMES) and 1 <= days <= 5 and rounds <= 4 and sight <= 100
        if not fits or not {bids, form} <= {0, 1}:
            raise UsageError(
                f"There is no game {name!r}: seats is 3 to {len(NAMES)}, days 1 to 5, rounds 0 to 4, sight 0 to 100 "
                "(percent; 0: no clues), bids 0 or 1, and form 0 (words) or 1 (a list)."
            )
        self._seats, self._days, self._rounds, self._sight = seats, days, rounds, sight
        self._bids, self._in_words = bool(bids), form == 0
        wolves = 1 if seats < 6 else 2
        by_lot = wolves / (seats - 1)  # the probability that anyone else is a wolf
        self._dealt = Deal(seats, wolves, by_lot + sight / 100 * (1.0 - by_lot) if sight else 0.0)
        self.spec = GameSpec(
            name=name,
            seats=seats,
            num_actions=0 if self._in_words else 3 * seats + 4,
            max_turns=self._dealt.most_turns(days, rounds * (1 + bids)),
            min_return=-1.0,
            max_return=1.0,
            utility=Utility.GENERAL_SUM,
            perfect_information=False,
            has_chance=True,
            free_text=self._in_words,
            suite="talk",
        )
        self.reset(0)

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the names that the next seat may have; then, villager by villager, the names that its clue may say."""
        return tuple([(NAMES[place], probability) for place, probability in self._dealt.outcomes()])

    def apply_chance(self, outcome: str) -> None:
        """Give the next seat a name, or the next villager a clue."""
        self._dealt = self._dealt._replace(drawn=(*self._dealt.drawn, NAMES.index(outcome)))
        if self._dealt.complete:
            self._open(Scene.WHISPER)

    def to_act(self) -> int | None:
        """Return the seat that bids, speaks, takes or votes next; None when one side has won."""
        place = self._place_to_act()
        return None if place is None else self._dealt.drawn.index(place)

    def actions(self) -> Choices | FreeText:
        """Return the request for words, or the list of names to suspect, to vote for, or to take; or a bid's."""
        if self._in_words and self._scene in (Scene.WHISPER, Scene.TALK) and not self._discussion.bidding:
            return speech(MOST_CHARACTERS, "the wolves" if self._scene is Scene.WHISPER else "all")
        return Choices(self.legal_actions(), self.legal_ids())

    def observe(self, seat: int) -> str:
        """Return the seat's name and role, its clue, what was said to it, how votes and nights ended, and the scene."""
        place, others = self._dealt.drawn[seat], ", ".join(NAMES[: self._seats])
        lines = [f"You are {NAMES[place]}, a {self._dealt.role(place)}. At the table: {others}."]
        if seat < self._dealt.wolves:
            lines += [f"With you: {NAMES[mate]}, a wolf." for mate in self._dealt.pack if mate != place]
        elif (clue := self._dealt.clue(seat)) is not None:
            lines.append(f"Your clue: {NAMES[clue]}. Of 100 clues {self._sight} are certain, the rest drawn by lot.")
        for talk, ending in self._past:
            lines += [*talk.lines(place), ending]
        lines += self._talk.lines(place)
        if (won := self.village_wins()) is not None:
            return "\n".join([*lines, "The village wins." if won else "The wolves win."])
        return "\n".join([*lines, f"Day {self._day} of {self._days}: {self._scene}."])

    def is_public(self, line: str) -> bool:
        """Return whether a line says the same to all."""
        return addresses_all(line)

    def information_state(self, seat: int) -> str:
        """Return the seat, what it sees, and its own bids and vote that it does not see."""
        place = self._dealt.drawn[seat]
        bids = [wants for asker, wants in self._asked if asker == place]
        votes = [vote for voter, vote in zip(self._alive, self._votes, strict=False) if voter == place]
        return f"{seat} {bids} {votes} {self.observe(seat)}"

    def _play(self, action: str) -> None:
        """Bid, speak, take or vote."""
        place = self._place_to_act()
        assert place is not None
        if self._scene is Scene.POLL:
            self._votes = (*self._votes, _place(action.removeprefix(VOTE)))
            if len(self._votes) == len(self._alive):
                self._count()
        elif self._scene is Scene.NIGHT:
            self._put_out(_place(action.removeprefix(TAKE)), f"Night {self._day - 1}:")
            self._open(Scene.TALK)
        elif self._discussion.bidding:
            self._asked = (*self._asked, (place, action == BIDS.labels[0]))
            self._discussion = self._discussion.bid(action == BIDS.labels[0])
            self._go_on()
        else:
            pack = team("the wolves", *self._dealt.pack)
            self._talk = self._talk.say(place, action, pack if self._scene is Scene.WHISPER else PUBLIC)
            self._discussion = self._discussion.spoke()
            self._go_on()

    def returns(self) -> tuple[float, ...]:
        """Return 1 for who won and -1 for who lost, by seat; zeros before the end."""
        won = self.village_wins()
        return (0.0,) * self._seats if won is None else self._dealt.paid(won)

    def possible_returns(self) -> set[tuple[float, ...]]:
        """Return what pays if the wolves win, and if the village does; it cannot with more wolves than days."""
        return {self._dealt.paid(False), self._dealt.paid(self._dealt.wolves <= self._days)}

    def village_wins(self) -> bool | None:
        """Return whether the village has won; None before the end."""
        wolves = sum(place in self._dealt.pack for place in self._alive)
        if wolves == 0:
            return True if self._dealt.complete else None
        return False if 2 * wolves >= len(self._alive) or self._day > self._days else None

    def claims(self) -> dict[int, int | None]:
        """Return by place the first other that it has said to all that it suspects; None if it has named none."""
        said = [message for talk in (*(talk for talk, _ in self._past), self._talk) for message in talk.heard(None)]
        return first_claims(said, NAMES[: self._seats])

    def posterior(self, seat: int) -> tuple[float, ...]:
        """Return each place's probability of being a wolf's; to a wolf, as if its claim were a villager's clue."""
        return players.posterior(self._view(seat))

    def probe_answers(self, probe: str, seat: int) -> Answers:
        """Return the names at the table, and the wolves', to the question ``wolf``, for any seat."""
        return players.suspects(probe, NAMES[: self._seats], self._dealt.pack)

    def belief(self, script: str, probe: str, seat: int) -> Mapping[str, float] | None:
        """Return what a script makes of the question ``wolf``: a Bayesian has its posterior, a wolf knows."""
        return players.belief(script, probe, self._view(seat))

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``good``, ``bayes``, ``poor`` and ``random``, as described in ``games.talk.hidden_roles_players``."""
        chosen = {"good": players.good, "bayes": players.bayes, "poor": players.poor}
        mine = {name: partial(self._scripted, script) for name, script in chosen.items()}
        return {**mine, "random": self.random_action}

    def _generator(self, seed: int) -> random.Random:
        return numbers_from(seed, self._draws)

    def _begin(self) -> None:
        self._dealt = self._dealt._replace(drawn=())
        self._alive, self._past, self._asked = tuple(range(self._seats)), (), ()
        self._day, self._talk = 1, Conversation(NAMES)
        self._open(Scene.POLL)

    def _open(self, scene: Scene) -> None:
        """Begin a scene, or the next one if nobody has anything to do in it."""
        self._scene, self._votes = scene, ()
        wolves = tuple([place for place in self._alive if place in self._dealt.pack])
        speakers = wolves if scene is Scene.WHISPER else self._alive
        rounds = (len(wolves) > 1) if scene is Scene.WHISPER else self._rounds
        self._discussion = Discussion(speakers, int(rounds), self._bids and scene is Scene.TALK)
        self._go_on()

    def _go_on(self) -> None:
        """Go on to the next scene when all is said in this one."""
        if self._scene is Scene.WHISPER and self._discussion.over:
            self._open(Scene.TALK if self._day == 1 else Scene.NIGHT)
        elif self._scene is Scene.TALK and self._discussion.over:
            self._open(Scene.POLL)

    def _count(self) -> None:
        """End a day: who has most votes is out."""
        votes = zip(self._alive, self._votes, strict=True)
        ballots = [f"{NAMES[voter]} for {NOBODY if vote is None else NAMES[vote]}" for voter, vote in votes]
        counts = Counter(self._votes).most_common(2)
        tied = len(counts) > 1 and counts[0][1] == counts[1][1]
        self._put_out(None if tied else counts[0][0], f"Day {self._day}: {', '.join(ballots)}.")
        self._day += 1
        self._open(Scene.WHISPER)

    def _put_out(self, place: int | None, how: str) -> None:
        out = "Nobody is out." if place is None else f"{NAMES[place]} is out and was a {self._dealt.role(place)}."
        self._past, self._talk = (*self._past, (self._talk, f"{how} {out}")), Conversation(NAMES)
        self._alive = tuple([other for other in self._alive if other != place])

    def _options(self) -> list[tuple[str, int]]:
        """Return the legal actions with their ids."""
        place, n = self._place_to_act(), self._seats
        others = [(NAMES[other], other) for other in self._alive if other != place]
        if place is None:
            return []
        if self._scene is Scene.NIGHT:
            return [(f"{TAKE}{name}", 2 * n + 2 + other) for name, other in others if other not in self._dealt.pack]
        if self._scene is Scene.POLL:
            return [(f"{VOTE}{name}", n + 1 + other) for name, other in [*others, (NOBODY, n)]]
        if self._discussion.bidding:
            return list(zip(BIDS.labels, (3 * n + 2, 3 * n + 3), strict=True))
        return [(f"{SUSPECT}{name}", other) for name, other in [*others, (NOBODY, n)]]

    def _place_to_act(self) -> int | None:
        if not self._dealt.complete or self.village_wins() is not None:
            return None
        if self._scene is Scene.POLL:
            return self._alive[len(self._votes)]
        if self._scene is Scene.NIGHT:
            return next(place for place in self._alive if place in self._dealt.pack)
        return self._discussion.to_act()

    def _scripted(self, script: Callable[[View, random.Random], str], rng: random.Random) -> str:
        seat = self.to_act()
        assert seat is not None
        return script(self._view(seat), rng)

    def _view(self, seat: int) -> View:
        """Return what a script of a seat goes by."""
        deal = self._dealt
        return View(
            NAMES[: self._seats],
            self.legal_actions(),
            deal.drawn[seat],
            self._alive,
            deal.pack if seat < deal.wolves else (),
            self._scene is not Scene.WHISPER,
            deal.clue(seat),
            self.claims(),
            {out: out in deal.pack for out in range(self._seats) if out not in self._alive},
            partial(posterior, self._seats, deal.wolves, deal.accuracy),
        )


def _place(name: str) -> int | None:
    return None if name == NOBODY else NAMES.index(name)
