"""An example of another VO's job generation: its merge jobs are of equal size.

Splitting, and what the jobs are, is as for everybody.
"""

from __future__ import annotations

from services.job_generation.generating.plugin import GreedyGeneration, MergeRequest
from services.job_generation.policy.merging import Producer, groups


class ExampleGeneration(GreedyGeneration):
    """As few merge jobs as the limits of the task allow, each with as many outputs as the others."""

    name = "example"

    def merge_groups(self, request: MergeRequest) -> list[tuple[Producer, ...]]:
        """Dealt evenly, in order, unless a limit of bytes or events needs another cut.

        Example: of 5 outputs, at most 4 in a job, there are merge jobs of 3 and 2, not of 4 and 1.
        """
        full = super().merge_groups(request)
        if not request.is_complete or len(full) < 2:
            return full
        each, larger = divmod(len(request.producers), len(full))
        even, first = list[tuple[Producer, ...]](), 0
        for place in range(len(full)):
            end = first + each + (place < larger)
            even.append(tuple(request.producers[first:end]))
            first = end
        rules = request.task.rules
        return even if all(len(groups(one, rules, complete=True)) == 1 for one in even) else full
