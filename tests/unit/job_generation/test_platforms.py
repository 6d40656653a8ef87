"""PanDA brokerage, Checks for CPU and/or GPU Hardware: the regexp in sw_platform is resolved at the queue."""

import pytest

from services.job_generation.snapshot import platform_at
from shared.model.queue import Queue, queue_from_cric
from shared.model.software import QueueSoftware
from tests.handlers.grids import a_record

EXPRESSION = "x86_64-(centos7|el9)-gcc1[0-9]-opt"
PUBLISHED = QueueSoftware(cmtconfigs=["aarch64-el9-gcc13-opt", "x86_64-el9-gcc13-opt", "x86_64-centos7-gcc11-opt"])


def queue_with(*releases: str) -> Queue:
    queue = queue_from_cric("Q", a_record("Q", "ALPHA", releases=list(releases)))
    assert isinstance(queue, Queue)
    return queue


@pytest.mark.parametrize(
    ("architecture", "told"),
    [
        (EXPRESSION, "x86_64-el9-gcc13-opt"),
        (f"{EXPRESSION}@x86_64-el9", "x86_64-el9-gcc13-opt@x86_64-el9"),
        (f"{EXPRESSION}#x86_64-intel&nvidia", "x86_64-el9-gcc13-opt"),
        ('{"sw_platform": "x86_64-el9.*", "cpu_specs": [{"arch": "x86_64"}]}', "x86_64-el9-gcc13-opt"),
        ("x86_64-centos7-gcc11-opt", "x86_64-centos7-gcc11-opt"),
        ("ppc64-.*", "ppc64-.*"),
        ("#aarch64", ""),
        (None, ""),
    ],
)
def test_the_expression_becomes_the_first_platform_of_the_queue_that_fits(architecture, told):
    assert platform_at(queue_with("AUTO"), PUBLISHED, architecture) == told


@pytest.mark.parametrize(
    ("releases", "published"),
    [(["ANY"], PUBLISHED), (["AUTO", "ANY"], PUBLISHED), (["21.0"], PUBLISHED), (["AUTO"], None)],
)
def test_where_everything_is_taken_or_nothing_is_published_the_task_keeps_its_own_platform(releases, published):
    assert platform_at(queue_with(*releases), published, f"{EXPRESSION}@base") == f"{EXPRESSION}@base"
