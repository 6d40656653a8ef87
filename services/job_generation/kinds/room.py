"""A room of a kind, and what it is built on: the steps of the plain path."""

from __future__ import annotations

from typing import NamedTuple

from services.job_generation.requesting import Requesting
from services.job_generation.steps.counting import Counting
from services.job_generation.steps.doors import Kind, Kinds
from services.job_generation.steps.making import Making
from services.job_generation.steps.settling import Settling
from shared.config.parameters import Parameters
from shared.snapshot import KnownGrid


class Steps(NamedTuple):
    """The steps that any kind may use, and what it reads of the world."""

    kinds: Kinds
    parameters: Parameters
    grid: KnownGrid
    requesting: Requesting
    making: Making
    counting: Counting
    settling: Settling


class BuiltKind(Kind):
    """A kind that is built on the steps."""

    def __init__(self, steps: Steps) -> None:
        """Take what the kind needs of the steps; it may do without."""
