"""What jobs that evaluate points of hyper-parameters differ in."""

from __future__ import annotations

from services.job_generation.kinds.event_service.job import OfJobSet
from services.job_generation.specification.kind_of_job import Normal


class Evaluation(OfJobSet, Normal):
    """Evaluates points of a search of hyper-parameters (PanDA client, phpo); nobody merges what it wrote."""

    flag = "isHPO"
    writes_outputs = True
    has_own_outputs = True


EVALUATION = Evaluation()
