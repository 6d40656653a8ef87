"""PanDA brokerage, Checks for CPU and/or GPU Hardware: the regexp in sw_platform is resolved at the queue."""

import pytest

from services.job_generation.policy.queue_facts import platform_at
from shared.brokerage.software import SoftwareNeeds
from shared.model.architecture import parse_architecture
from shared.model.software import QueueSoftware, SoftwareTag

EXPRESSION = "x86_64-(centos7|el9)-gcc1[0-9]-opt"
PUBLISHED = QueueSoftware(cmtconfigs=["aarch64-el9-gcc13-opt", "x86_64-el9-gcc13-opt", "x86_64-centos7-gcc11-opt"])


def needing(architecture: str | None, **changes: str) -> SoftwareNeeds:
    return SoftwareNeeds(parse_architecture(architecture), **changes)


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
    assert platform_at(PUBLISHED, needing(architecture)) == told


def test_where_only_a_tag_has_the_release_the_job_is_told_the_platform_of_that_tag():
    tag = SoftwareTag(cmtconfig="x86_64-centos7-gcc11-opt", project="Athena", release="21.0.38")
    published = PUBLISHED.model_copy(update={"tags": [tag]})
    assert platform_at(published, needing(EXPRESSION, project="Athena", release="21.0.38")) == tag.cmtconfig
    at_cvmfs = published.model_copy(update={"cvmfs": ["atlas"]})
    assert platform_at(at_cvmfs, needing(EXPRESSION, project="Athena", release="21.0.38")) == "x86_64-el9-gcc13-opt"


def test_where_nothing_is_published_the_task_keeps_its_own_platform():
    assert platform_at(None, needing(f"{EXPRESSION}@base")) == f"{EXPRESSION}@base"
