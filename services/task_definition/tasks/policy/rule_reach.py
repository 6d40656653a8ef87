"""What a rule that is changed on a live task still reaches. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RuleReach:
    """Units of input of a task, and those of them that are in no job yet."""

    n_units: int = 0
    n_unused: int = 0

    def __str__(self) -> str:
        if self.n_unused:
            return f"it decides about {self.n_unused} of {self.n_units} units of input; jobs that exist keep theirs"
        return f"all {self.n_units} units of input are in jobs: it decides only about what is tried again"
