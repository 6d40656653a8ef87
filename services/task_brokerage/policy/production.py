"""Production task brokerage: checks, weight, weighted choice.

Source: PanDA brokerage, ATLAS production task brokerage.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from services.task_brokerage.policy.columns import Flags, NucleusColumns, Real, build_nuclei, input_gb
from services.task_brokerage.policy.filters import FILTERS, LOCALITY, NucleusFilter, kept_from_waiver
from shared.brokerage.decision import Decision
from shared.brokerage.draw import uniform_of, weighted_choice
from shared.brokerage.nucleus import TaskRequest
from shared.brokerage.pipeline import Exclusions
from shared.brokerage.weights import product
from shared.brokerage.world import World
from shared.model.units import GB_BYTES


def run_filters(filters: tuple[NucleusFilter, ...], nuclei: NucleusColumns, request: TaskRequest) -> Exclusions:
    """For each nucleus the first check that excluded it."""
    exclusions = Exclusions.none(len(nuclei.names))
    for one in filters:
        verdict = one.decide(nuclei, request)
        if verdict is not None:
            exclusions.judge(one.check, verdict)
    return exclusions


def nucleus_factors(nuclei: NucleusColumns, request: TaskRequest, alive: Flags) -> dict[str, Real]:
    """The factors of a nucleus's weight.

    They are localInputSize x tapeWeight x (spaceFree + spaceExpired) / (max(rwOffset, RW) x totalInputSize x
    spaceTotal).

    tapeWeight counts where any of the local input is on tape only: the document says "if input data is on the tape
    storage". The input's part counts only if the IO intensity is above MIN_IO_INTENSITY_WITH_LOCAL_DATA (and there is
    input). The document does not say what holds where none of the nuclei that pass (`alive`) has any of the input, as
    after a waiver of the locality check for high priority: all weights would be 0, and the draw would not look at space
    and work. Then the formula without the input's part is taken. Why: data, space and little work all draw a task.
    Example: 50 of 100 GB at hand on disk, 200 of 1000 GB of space and RW 10 give 50 x 200 / (10 x 100 x 1000) = 0.01.
    Source: PanDA brokerage, ATLAS production task brokerage.
    """
    limits = request.limits
    total_bytes = input_gb(request) * GB_BYTES
    factors: dict[str, Real] = {}
    if request.io_intensity_kb_s > limits.min_io_intensity_with_local_data_kb_s and total_bytes > 0:
        local = nuclei.local_bytes / total_bytes
        if (local[alive] > 0).any():
            factors["local_input"] = local
    factors["tape"] = np.where(nuclei.only_on_tape, limits.tape_weight, 1.0)
    total_gb = np.where(nuclei.space_total_gb > 0, nuclei.space_total_gb, np.nan)
    factors["space"] = np.nan_to_num(nuclei.space_free_gb / total_gb, nan=0.0)
    factors["remaining_work"] = 1 / np.maximum(limits.remaining_work_offset, nuclei.work_hs06_s)
    return factors


def _lacks_input(exclusions: Exclusions) -> bool:
    """Whether a nucleus was left out because of where the input is."""
    return bool(np.isin(exclusions.codes, [one.code for one in LOCALITY]).any())


class ProductionTaskBrokerage:
    """Draws one of the nuclei that pass, by weight; without any, the task waits 30 minutes."""

    name = "production"

    def decide(self, world: World, request: TaskRequest, seed: int) -> Decision:
        """Checks with the waiver of locality, weights, one nucleus drawn by weight."""
        nuclei = build_nuclei(world, request)
        exclusions = run_filters(FILTERS, nuclei, request)
        beyond = "" if exclusions.alive.any() else kept_from_waiver(request)
        if not exclusions.alive.any() and not beyond:
            exclusions = run_filters(tuple(one for one in FILTERS if one.check not in LOCALITY), nuclei, request)
        alive = exclusions.alive
        factors = nucleus_factors(nuclei, request, alive)
        weights = np.where(alive, product(factors), 0.0)
        by_name = {name: float(weights[place]) for place, name in enumerate(nuclei.names) if alive[place]}
        nucleus = weighted_choice(by_name, uniform_of(seed))
        return Decision(
            kind="task",
            task_id=request.task_id,
            plugin=self.name,
            seed=seed,
            world_version=world.version,
            decided_at=request.now,
            names=nuclei.names,
            codes=exclusions.codes,
            found=exclusions.found,
            wanted=exclusions.wanted,
            weights=weights,
            checks=exclusions.checks,
            chosen=(nucleus,) if nucleus else (),
            terms={name: np.where(alive, factor, np.nan) for name, factor in factors.items()},
            notes=(f"data locality is not waived: {beyond}",) if beyond and _lacks_input(exclusions) else (),
            retry_at=None if nucleus else request.now + timedelta(seconds=request.limits.retry_s),
        )
