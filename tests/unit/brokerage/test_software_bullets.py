"""Release/cache availability on the document's own example queue, and in both job brokerages."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_brokerage.policy.analysis import AnalysisJobBrokerage
from services.job_brokerage.policy.production import ProductionJobBrokerage
from shared.brokerage.request import JobRequest
from shared.brokerage.software import Lack, SoftwareNeeds, lack_of
from shared.model.architecture import parse_architecture
from shared.model.software import QueueSoftware
from tests.unit.brokerage.analysis_worlds import an_analysis
from tests.unit.brokerage.parts import explanation
from tests.unit.brokerage.worlds import a_queue, a_request, a_world

PLATFORM = "x86_64-slc6-gcc62-opt"
EXPRESSION = "x86_64-slc6-gcc[0-9]+-opt"
# The queue that the document shows; its tags are those of two releases of one platform.
EXAMPLE: dict[str, Any] = {
    "cmtconfigs": [
        "x86_64-centos7-gcc62-opt", "x86_64-centos7-gcc8-opt", "x86_64-slc6-gcc49-opt", PLATFORM,
        "x86_64-slc6-gcc8-opt",
    ],
    "containers": ["any", "/cvmfs"],
    "cvmfs": ["atlas", "nightlies"],
    "architectures": [
        {"arch": ["x86_64"], "instr": ["avx2"], "type": "cpu", "vendor": ["intel", "excl"]},
        {"type": "gpu", "vendor": ["nvidia", "excl"], "model": ["kt100"]},
    ],
    "tags": [
        {"cmtconfig": PLATFORM, "container_name": "", "project": project, "release": release, "sources": [],
         "tag": f"VO-atlas-{project}-{release}-{PLATFORM}"}
        for project, release in (("AthDerivation", "21.2.2.0"), ("Athena", "21.0.38"))
    ],
}  # fmt: skip
WITHOUT_HARDWARE = {key: value for key, value in EXAMPLE.items() if key != "architectures"}
ONLY_TAGS = {"tags": EXAMPLE["tags"]}


def needing(architecture: str, **changes: Any) -> SoftwareNeeds:
    return SoftwareNeeds(parse_architecture(architecture), **changes)


def lack(needs: SoftwareNeeds, published: dict[str, Any] = EXAMPLE) -> Lack:
    return lack_of(a_queue("AGLT2", releases=("AUTO",)), {"AGLT2": QueueSoftware.model_validate(published)}, needs)


@pytest.mark.parametrize(
    ("hardware", "expected"),
    [
        ("#x86_64-intel-avx2&nvidia-kt100", Lack.NOTHING),
        ("#x86_64-intel&nvidia", Lack.NOTHING),  # an attribute that is not asked for
        ("#(x86_64|aarch64)-intel&nvidia", Lack.NOTHING),
        ("#aarch64-intel&nvidia", Lack.CPU),
        ("#x86_64-intel-avx512&nvidia", Lack.CPU),
        ("#x86_64-amd&nvidia", Lack.CPU),
        ("#x86_64&nvidia", Lack.CPU),  # excl: only tasks that ask for this vendor
        ("&nvidia", Lack.CPU),  # the first part of sw_platform is the CPU architecture, without a vendor
        ("#x86_64-intel&amd", Lack.GPU),
        ("#x86_64-intel&nvidia-a100", Lack.GPU),
        ("#x86_64-intel", Lack.GPU),
    ],
)
def test_host_cpu_spec_and_host_gpu_spec_are_checked_against_architectures(hardware, expected) -> None:
    assert lack(needing(f"{PLATFORM}{hardware}", project="Athena", release="21.0.38")) is expected


@pytest.mark.parametrize(
    ("platform", "arch", "expected"),
    [("x86_64-slc6-gcc62-opt", "x86_64", Lack.NOTHING), ("aarch64-el9-gcc13-opt", "x86_64", Lack.CPU)],
)
def test_without_host_cpu_spec_the_first_part_of_sw_platform_is_the_cpu(platform, arch, expected) -> None:
    published = {**EXAMPLE, "cmtconfigs": [platform], "architectures": [{"type": "cpu", "arch": [arch]}]}
    assert lack(needing(platform, project="Athena", release="1"), published) is expected


@pytest.mark.parametrize(
    ("project", "release", "nightly", "changes", "expected"),
    [
        ("Athena", "99.9", False, {}, Lack.NOTHING),  # cvmfs atlas and a container
        ("Athena", "rel_1", True, {}, Lack.NOTHING),  # cvmfs nightlies
        ("Athena", "99.9", False, {"cvmfs": ["nightlies"]}, Lack.RELEASE),
        ("Athena", "rel_1", True, {"cvmfs": ["atlas"]}, Lack.RELEASE),
        ("Athena", "99.9", False, {"cvmfs": ["any"]}, Lack.NOTHING),
        ("Athena", "99.9", False, {"containers": []}, Lack.NOTHING),  # sw_platform among cmtconfigs
        ("Athena", "99.9", False, {"containers": [], "cmtconfigs": []}, Lack.RELEASE),
        ("Athena", "99.9", False, {"containers": ["/cvmfs"], "cmtconfigs": []}, Lack.NOTHING),
        ("Athena", "21.0.38", False, {"cvmfs": []}, Lack.NOTHING),  # by tag
        ("AthDerivation", "21.0.38", False, {"cvmfs": []}, Lack.RELEASE),
        ("Athena", "21.2.2.0", False, {"cvmfs": []}, Lack.RELEASE),
    ],
)
def test_releases_caches_and_nightlies_are_found_by_cvmfs_or_by_tag(
    project, release, nightly, changes, expected
) -> None:
    needs = needing(PLATFORM, project=project, release=release, nightly=nightly)
    assert lack(needs, {**WITHOUT_HARDWARE, **changes}) is expected


@pytest.mark.parametrize(
    ("base_platform", "containers", "expected"),
    [("", [], Lack.NOTHING), ("@centos7", [], Lack.RELEASE), ("@centos7", ["/cvmfs"], Lack.RELEASE),
     ("@centos7", ["any"], Lack.NOTHING)],
)  # fmt: skip
def test_by_tag_any_container_or_an_empty_base_platform_is_needed(base_platform, containers, expected) -> None:
    needs = needing(f"{PLATFORM}{base_platform}", project="Athena", release="21.0.38")
    assert lack(needs, {**ONLY_TAGS, "containers": containers}) is expected


def test_a_tag_must_have_the_platform_of_the_task() -> None:
    assert lack(needing("x86_64-slc6-gcc8-opt", project="Athena", release="21.0.38"), ONLY_TAGS) is Lack.RELEASE


@pytest.mark.parametrize(
    ("platform", "published", "expected"),
    [
        # by cvmfs: the platform must be among cmtconfigs, and no platform is in no list
        ("", {"cvmfs": ["atlas"], "cmtconfigs": [PLATFORM]}, Lack.RELEASE),
        ("", {"cvmfs": ["atlas"], "cmtconfigs": [PLATFORM], "containers": ["/cvmfs"]}, Lack.NOTHING),
        # by tag: the platform must be equal
        (EXPRESSION, {"tags": EXAMPLE["tags"]}, Lack.RELEASE),
        (EXPRESSION, {"tags": EXAMPLE["tags"], "cmtconfigs": ["x86_64-slc6-gcc49-opt"]}, Lack.RELEASE),
        (EXPRESSION, {"tags": EXAMPLE["tags"], "cmtconfigs": EXAMPLE["cmtconfigs"]}, Lack.NOTHING),
        # by cvmfs with containers no platform is asked for, so that none must be the queue's
        (EXPRESSION, {"cvmfs": ["atlas"], "containers": ["any"]}, Lack.NOTHING),
        (
            EXPRESSION,
            {"cvmfs": ["any"], "containers": ["/cvmfs"], "cmtconfigs": ["aarch64-el9-gcc13-opt"]},
            Lack.NOTHING,
        ),
        (EXPRESSION, {"cvmfs": ["atlas"], "cmtconfigs": ["aarch64-el9-gcc13-opt"]}, Lack.RELEASE),
        (EXPRESSION, {"cvmfs": ["atlas"], "containers": ["any"], "cmtconfigs": [PLATFORM]}, Lack.NOTHING),
    ],
)
def test_a_release_needs_a_platform_that_the_queue_has(platform, published, expected) -> None:
    needs = needing(platform, project="Athena", release="21.0.38")
    assert lack(needs, published) is expected
    for request_of in (a_request, an_analysis):
        check = told(request_of, ("AUTO",), published, platform)
        assert check == ("release" if expected else None)


def test_hardware_is_told_before_the_container_and_the_release() -> None:
    published = {"architectures": [{"type": "cpu", "arch": ["x86_64"]}]}
    wanted = [("#aarch64&nvidia", "c", Lack.CPU), ("#x86_64&nvidia", "c", Lack.GPU), ("#x86_64", "c", Lack.CONTAINER),
              ("#x86_64", "", Lack.RELEASE)]  # fmt: skip
    for hardware, container, expected in wanted:
        needs = needing(f"{PLATFORM}{hardware}", project="Athena", release="1", container=container)
        assert lack(needs, published) is expected


@pytest.mark.parametrize("request_of", [a_request, an_analysis])
@pytest.mark.parametrize(
    ("releases", "check"),
    [(("ANY",), None), (("AUTO",), None), (("21.0.38",), None), (("21.0.39",), "release"), (("ANY", "21.0.39"), None)],
)
def test_the_release_check_is_skipped_for_any_and_uses_the_published_json_for_auto(request_of, releases, check) -> None:
    assert told(request_of, releases, WITHOUT_HARDWARE) == check


@pytest.mark.parametrize("request_of", [a_request, an_analysis])
@pytest.mark.parametrize(
    ("changes", "check"),
    [({"cvmfs": [], "tags": []}, "release"), ({"architectures": EXAMPLE["architectures"]}, "cpu_hardware")],
)
def test_an_auto_queue_whose_published_json_does_not_help_is_skipped(request_of, changes, check) -> None:
    assert told(request_of, ("AUTO",), {**WITHOUT_HARDWARE, **changes}) == check


def told(request_of: Any, releases: tuple[str, ...], published: dict[str, Any], platform: str = PLATFORM) -> str | None:
    """The check with which the job brokerage of a request leaves the example queue out."""
    request: JobRequest = request_of(software=needing(platform, project="Athena", release="21.0.38"))
    world = a_world([a_queue("AGLT2", releases=releases)], software={"AGLT2": published})
    policy = AnalysisJobBrokerage() if request.is_analysis else ProductionJobBrokerage()
    why = explanation(policy.decide(world, request, 1), "AGLT2")
    return None if why is None else why.check
