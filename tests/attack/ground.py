"""What an attack has at hand, and how it says that it got through."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field

from tests.attack.answers import Answer
from tests.attack.canaries import Canaries
from tests.attack.people import People, Person
from tests.attack.rows import Rows
from tests.attack.stage import Stage, Victim
from tests.attack.system import AttackedSystem


class GotThrough(Exception):
    """The attack had success; the text says with what."""


@dataclass(frozen=True)
class Ground:
    """The system, the people and the stage. `small`: for the small run, which takes less of everything."""

    system: AttackedSystem
    people: People
    canaries: Canaries
    stage: Stage
    rows: Rows
    small: bool
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def fresh(self, word: str) -> str:
        """A name that was not used before."""
        return f"{word}{next(self._numbers)}"

    def wait(self, seconds: float) -> None:
        """What has no sign by which it could be known to have happened."""
        time.sleep(seconds)

    @property
    def ada(self) -> Victim:
        return self.stage.ada

    @property
    def bob(self) -> Victim:
        return self.stage.bob

    def sized(self, full: int, small: int) -> int:
        return small if self.small else full

    def refused(self, person: Person, answer: Answer, what: str, because: str = "") -> None:
        """Raises GotThrough where the answer is no refusal, or one that does not name `because`, its reason."""
        if answer.status >= 500:
            raise GotThrough(f"{person.label}: {what}: an error of the service: {answer}")
        if answer.is_success:
            raise GotThrough(f"{person.label}: {what}: {answer}")
        if because not in answer.text:
            raise GotThrough(f"{person.label}: {what}: is refused for another reason than {because}: {answer}")

    def tells_nothing(self, person: Person, text: str, what: str) -> None:
        """Raises GotThrough where a text holds what the person may not see."""
        told = [one.what for one in self.canaries.told_to(person.caller, text)]
        if told:
            raise GotThrough(f"{person.label}: {what} tells {', '.join(dict.fromkeys(told))}")


def require(holds: bool, text: str) -> None:
    """Raises GotThrough with the text where it does not hold."""
    if not holds:
        raise GotThrough(text)
