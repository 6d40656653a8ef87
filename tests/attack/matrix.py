"""Role x VO x route x own or other's: what each cell must answer follows from the rule, the roles and the right.

Reading: whom the rule allows gets an answer; everybody else the state view (success without anything of the owner's) or
a refusal, in the same words as for what does not exist. Changing: the attempts of all whom the rule does not allow
leave every row of the owner as it is; whom it allows is not refused for who they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from shared.auth import access
from shared.auth.access import Whose
from tests.attack.answers import Answer
from tests.attack.calls import CALLS, NOT_CALLED, Call, absent
from tests.attack.ground import Ground
from tests.attack.people import Person
from tests.attack.routes import AttackedRoute, all_routes
from tests.attack.rows import changed
from tests.attack.stage import Victim

#: told of a job that somebody else acquired to whom a token has expired
LATE = "whose token has expired"
AT_ONCE = 6
#: of the small run: an owner, somebody of the VO, others with the same name, production, pilots, operators
OF_SMALL = {
    "ada@atlas", "bob@atlas", "bob@cms", "iam:ada@atlas", "egi:ada@cms", "production@atlas", "production@cms",
    "pilot@cms", "operator", "ada@atlas (compute.read)",
}  # fmt: skip
#: what no answer of the matrix is made of: the bytes of an archive, which the attacks on archives read
READ_ELSEWHERE = frozenset({"content of an archive of ada@atlas"})
_NUMBERS = re.compile(r"\d+(\.\d+)?")


@dataclass
class Row:
    """What was found of one route."""

    route: AttackedRoute
    n_cells: int = 0
    wrong: list[str] = field(default_factory=list)


class Matrix:
    """All cells. `revoked`: a token that was revoked long enough ago."""

    def __init__(self, ground: Ground, revoked: str) -> None:
        self._ground = ground
        self._routes = all_routes()
        believed = ground.people.believed()
        self._people = [one for one in believed if not ground.small or one.label in OF_SMALL]
        self._not_believed = ground.people.not_believed(revoked)
        self._rows = {route.name: Row(route) for route in self._routes}
        self._seen: set[str] = set()

    def missing(self) -> list[str]:
        """Routes that nobody said how to call, and names of calls that are no routes."""
        named = {*CALLS, *NOT_CALLED}
        known = set(self._rows)
        new = [f"{name}: say in tests/attack/calls.py how it is called" for name in known - named]
        gone = [f"{name}: is in tests/attack/calls.py and no route" for name in named - known]
        open_ones = [one.name for one in self._routes if one.asks is None and one.name in CALLS]
        return sorted([*new, *gone, *(f"{name}: asks nobody who they are" for name in open_ones)])

    def rows(self) -> list[Row]:
        """What was found so far, by route."""
        return list(self._rows.values())

    def seen_by_nobody(self) -> list[str]:
        """What was planted, and not read by those either who may: a leak of it would not be noticed."""
        planted = [one for one in self._ground.canaries.by_text.values() if one.whose == self._ground.ada.whose]
        seen = {one.what for one in planted if one.text in self._seen}
        return sorted({one.what for one in planted} - seen)

    def blind(self) -> list[str]:
        """Kinds of text that nobody reads of any task, although they are not told by an archive's bytes alone."""
        kinds = {one.partition(" of the ")[0] for one in self.seen_by_nobody()}
        seen = {
            one.what.partition(" of the ")[0]
            for one in self._ground.canaries.by_text.values()
            if one.text in self._seen
        }
        return [f"{one}: was planted and read by nobody who may: a leak of it would not be noticed"
                for one in sorted(kinds - seen - READ_ELSEWHERE)]  # fmt: skip

    def run(self) -> None:
        """Bad tokens, reading, and the attempts of those who may not change something."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(self._bad_tokens, self._called(lambda call: True)):
                pass
            for _ in pool.map(self._reading, self._called(lambda call: not call.changes)):
                pass
            for pair in self._called(lambda call: call.changes):
                self._attempts(pair, pool)

    def change(self) -> None:
        """What is allowed to change; it ends tasks of the stage."""
        for pair in self._called(lambda call: call.changes):
            self._allowed_changes(pair)

    def _called(self, wanted: Callable[[Call], bool]) -> list[tuple[AttackedRoute, Call]]:
        """Routes in the order of `calls`, where what ends a task stands after what only bends it."""
        by_name = {one.name: one for one in self._routes if one.asks is not None}
        return [(by_name[name], call) for name, call in CALLS.items() if name in by_name and wanted(call)]

    def _cell(self, route: AttackedRoute, wrong: str) -> None:
        row = self._rows[route.name]
        row.n_cells += 1
        if wrong:
            row.wrong.append(wrong)

    def _asked(self, route: AttackedRoute, call: Call, victim: Victim, person: Person) -> Answer:
        method = route.methods[-1] if route.methods == ("GET", "POST") and call.changes else route.methods[0]
        return call.made(person, method, route.path, victim)

    # nobody believes these

    def _bad_tokens(self, pair: tuple[AttackedRoute, Call]) -> None:
        route, call = pair
        some = self._not_believed[:3] if self._ground.small else self._not_believed
        for person in some:
            victim = self._ground.ada
            answer = self._asked(route, call, victim, person)
            # an expired token may still tell the end of a job that it acquired; of this one it is told that it did not
            is_told = answer.is_unknown_caller or (not answer.is_success and LATE in answer.text)
            wrong = "" if is_told else f"{person.label}: is not told to be unknown: {answer}"
            self._cell(route, self._leaks(route, call.says(victim), person, answer) or wrong)

    # reading

    def _reading(self, pair: tuple[AttackedRoute, Call]) -> None:
        route, call = pair
        for victim in self._victims():
            for person in self._people:
                answer = self._asked(route, call, victim, person)
                self._seen |= self._ground.canaries.found_in(answer.text)
                self._cell(route, self._wrong_reading(route, call, person, victim, answer))

    def _wrong_reading(self, route: AttackedRoute, call: Call, person: Person, victim: Victim, answer: Answer) -> str:
        caller, about = person.caller, f"{person.label} about {victim.person.label}"
        assert caller is not None
        if leaks := self._leaks(route, call.says(victim), person, answer):
            return leaks
        if answer.status >= 500:
            return f"{about}: an error of the service: {answer}"
        if not route.may_call(caller):
            return "" if answer.is_forbidden else f"{about}: without the role or the right, yet: {answer}"
        if route.allows(caller, self._whose(call, victim)):
            return "" if answer.is_success or call.fenced else f"{about}: must be told, but: {answer}"
        if answer.is_success:
            return ""
        nothing = self._asked(route, call, absent(victim), person)
        if _shape(answer) != _shape(nothing):
            return f"{about}: what is hidden is told as {answer}, what is absent as {nothing}"
        return ""

    # changing

    def _attempts(self, pair: tuple[AttackedRoute, Call], pool: ThreadPoolExecutor) -> None:
        route, call = pair
        for victim in self._victims():
            strangers = [one for one in self._people if not self._is_allowed(route, call, one, victim)]
            before = self._ground.rows.of(victim)
            answers = list(pool.map(partial(self._asked, route, call, victim), strangers))
            gone = changed(before, self._ground.rows.of(victim))
            told = [one.label for one, answer in zip(strangers, answers, strict=True) if answer.is_success]
            for person, answer in zip(strangers, answers, strict=True):
                self._cell(route, self._wrong_attempt(route, call, person, victim, answer))
            if gone:
                who = ", ".join(told) or "somebody, although all were refused"
                self._cell(route, f"rows of {victim.person.label} in {', '.join(gone)} were changed by {who}")

    def _wrong_attempt(self, route: AttackedRoute, call: Call, person: Person, victim: Victim, answer: Answer) -> str:
        about = f"{person.label} about {victim.person.label}"
        if leaks := self._leaks(route, call.says(victim), person, answer):
            return leaks
        if answer.status >= 500:
            return f"{about}: an error of the service: {answer}"
        return f"{about}: must be refused, but: {answer}" if answer.is_success and not call.silent else ""

    def _allowed_changes(self, pair: tuple[AttackedRoute, Call]) -> None:
        route, call = pair
        for victim in self._victims():
            for person in (one for one in self._people if self._is_allowed(route, call, one, victim)):
                answer = self._asked(route, call, victim, person)
                wrong = f"{person.label} about {victim.person.label}: may do it, but: {answer}"
                is_wrong = answer.status >= 500 or (answer.is_forbidden and not call.fenced)
                self._cell(route, self._leaks(route, call.says(victim), person, answer) or (wrong if is_wrong else ""))

    def _is_allowed(self, route: AttackedRoute, call: Call, person: Person, victim: Victim) -> bool:
        assert person.caller is not None
        is_its_pilot = bool(call.pilot_may) and person.label == victim.pilot.label
        return is_its_pilot or route.allows(person.caller, self._whose(call, victim))

    def _whose(self, call: Call, victim: Victim) -> Whose:
        return victim.whose if call.whose is None else call.whose

    def _victims(self) -> Sequence[Victim]:
        return self._ground.stage.victims[: self._ground.sized(2, 1)]

    def _leaks(self, route: AttackedRoute, said: str, person: Person, answer: Answer) -> str:
        """What the answer tells that the caller had not `said`.

        A pilot's route tells jobs to whoever may run them, but nothing that is somebody's own.
        """
        assert route.asks is not None
        rule, caller = route.asks.rule, person.caller
        found = [
            one
            for one in self._ground.canaries.told_to(caller, answer.text)
            if one.text not in said
            and (
                one.rule is access.OWN
                or rule is not access.PILOTS
                or caller is None
                or not rule.allows(caller, one.whose)
            )
        ]
        told = list(dict.fromkeys(one.what for one in found))
        return f"{person.label}: is told {_listed(told)}" if told else ""


def _shape(answer: Answer) -> tuple[int, str]:
    """An answer without the numbers and names that were asked for."""
    return answer.status, _NUMBERS.sub("N", re.sub(r"canary\w+|nothing", "NAME", answer.text))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each route that did not hold, with the first of what is wrong."""
    for row in rows:
        if row.wrong:
            rule = row.route.asks.rule.name if row.route.asks is not None else "-"
            yield f"{row.route.name} [{rule}]: {len(row.wrong)} of {row.n_cells} cells"
            yield from (f"    {one[:300]}" for one in row.wrong[:4])
