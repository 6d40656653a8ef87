"""Architecture strings, releases, containers and hardware: each rule of the document, then what the field answers."""

from __future__ import annotations

from typing import Any

import pytest

from shared.brokerage.software import Lack, SoftwareNeeds, lack_of, resolve_platform, software_of_task
from shared.model.architecture import Architecture, CpuSpec, GpuSpec, InvalidArchitecture, parse_architecture
from shared.model.software import QueueSoftware
from shared.task.in_effect import rules_of
from tests.unit.brokerage.conformance import sample
from tests.unit.brokerage.worlds import a_queue

PLATFORM = "x86_64-centos7-gcc11-opt"


def lack(published: dict[str, Any] | None, needs: SoftwareNeeds, releases: tuple[str, ...] = ("AUTO",), **more) -> Lack:
    software = {name: QueueSoftware.model_validate(one) for name, one in more.items()}
    if published is not None:
        software["Q"] = QueueSoftware.model_validate(published)
    return lack_of(a_queue("Q", releases=releases), software, needs)


def needing(architecture: str = "", **changes: Any) -> SoftwareNeeds:
    return SoftwareNeeds(parse_architecture(architecture), **changes)


RELEASE = needing(PLATFORM, project="Athena", release="21.0.38")


@pytest.mark.parametrize("case", sample("archstring")["cases"], ids=lambda case: case["in"]["architecture"] or "empty")
def test_architectures_are_read_as_in_the_field(case) -> None:
    found, out = parse_architecture(case["in"]["architecture"]), case["out"]
    specs = [{"arch": one.arch, "vendor": one.vendor, "instr": one.instr} for one in found.cpu_specs] or None
    gpu = found.gpu_spec and {
        "vendor": found.gpu_spec.vendor,
        "model": found.gpu_spec.model,
        **dict(found.gpu_spec.requirements),
    }
    assert (found.sw_platform, found.base_platform or None, specs, gpu) == (
        out["sw_platform"],
        out["base_platform"],
        out["cpu_specs"],
        out["gpu_spec"],
    )
    assert found.platforms == out["platforms"]
    assert found.preferred_level == (out["cpu_pref"] or {}).get("preferred_architecture_level", "")


def test_without_host_cpu_spec_the_first_part_of_the_platform_is_the_cpu_architecture() -> None:
    assert parse_architecture("aarch64-el9-gcc13-opt").cpu_specs == (CpuSpec("aarch64"),)
    assert parse_architecture("(x86_64|aarch64)-el9-.*").cpu_specs == (CpuSpec("x86_64"), CpuSpec("aarch64"))
    assert parse_architecture(None) == Architecture()


@pytest.mark.parametrize(
    "text",
    [
        "x86_64-(el9-gcc13-opt",
        "x86_64-el9#(x86_64-intel",
        "x86&nvidia:speed>=3",
        '{"platform": "x"}',
        '{"sw_platform":',
        '{"cpu_specs": "x86_64"}',
    ],
)
def test_an_architecture_that_makes_no_sense_is_refused(text) -> None:
    with pytest.raises(InvalidArchitecture):
        parse_architecture(text)


def test_queues_with_any_release_take_everything() -> None:
    assert lack(None, needing("x#arm&nvidia", container="c", release="1"), ("ANY",)) is Lack.NOTHING


def test_queues_that_list_releases_take_those() -> None:
    assert lack(None, RELEASE, ("21.0.38", "21.0.39")) is Lack.NOTHING
    assert lack(None, RELEASE, ("Athena-21.0.38",)) is Lack.NOTHING
    assert lack(None, RELEASE, ("21.0.39",)) is Lack.RELEASE
    assert lack(None, needing("#x86_64"), ("21.0.39",)) is Lack.CPU
    assert lack(None, needing(container="c"), ("21.0.39",)) is Lack.CONTAINER


def test_a_queue_that_was_to_publish_and_did_not_has_nothing() -> None:
    assert lack(None, RELEASE) is Lack.RELEASE
    assert lack(None, needing()) is Lack.NOTHING


@pytest.mark.parametrize(
    ("cvmfs", "containers", "cmtconfigs", "expected"),
    [
        (["atlas"], ["any"], [], Lack.NOTHING),
        (["any"], ["/cvmfs"], [], Lack.NOTHING),
        (["atlas"], [], [PLATFORM], Lack.NOTHING),
        (["atlas"], [], ["aarch64-el9-gcc13-opt"], Lack.RELEASE),
        (["nightlies"], ["any"], [PLATFORM], Lack.RELEASE),
    ],
)
def test_releases_need_cvmfs_with_a_container_or_the_platform(cvmfs, containers, cmtconfigs, expected) -> None:
    published = {"cvmfs": cvmfs, "containers": containers, "cmtconfigs": cmtconfigs}
    assert lack(published, RELEASE) is expected


def test_nightlies_need_the_nightlies_tag() -> None:
    nightly = software_of_task({"trans_home": "Athena-rel_3", "architecture": PLATFORM}, rules_of(None))
    assert nightly.nightly
    assert lack({"cvmfs": ["nightlies"], "containers": ["any"]}, nightly) is Lack.NOTHING
    assert lack({"cvmfs": ["atlas"], "containers": ["any"]}, nightly) is Lack.RELEASE


def test_otherwise_platform_project_and_release_must_be_those_of_a_tag() -> None:
    tag = {"cmtconfig": PLATFORM, "project": "Athena", "release": "21.0.38"}
    assert lack({"tags": [tag]}, RELEASE) is Lack.NOTHING
    assert lack({"tags": [{**tag, "release": "21.0.39"}]}, RELEASE) is Lack.RELEASE
    based = needing(f"{PLATFORM}@centos7", project="Athena", release="21.0.38")
    assert lack({"tags": [tag]}, based) is Lack.RELEASE, "a base platform needs a container"
    assert lack({"tags": [tag], "containers": ["any"]}, based) is Lack.NOTHING


def test_the_regular_expression_of_a_platform_is_resolved_among_the_queues_platforms() -> None:
    needs = needing("x86_64-.*-gcc13-opt@centos7", project="Athena", release="1")
    published = {"cvmfs": ["any"], "cmtconfigs": ["aarch64-el9-gcc13-opt", "x86_64-el9-gcc13-opt"]}
    assert lack(published, needs) is Lack.NOTHING
    assert resolve_platform(QueueSoftware(**published), needs) == "x86_64-el9-gcc13-opt@centos7"


TAG = {"container_name": "atlas/athena:1", "sources": ["/cvmfs/unpacked/athena:1"]}


@pytest.mark.parametrize(
    ("name", "only_tags", "published", "expected"),
    [
        ("atlas/athena:1", True, {"tags": [TAG]}, True),
        ("/cvmfs/unpacked/athena:1", True, {"tags": [TAG]}, True),
        ("atlas/athena:2", True, {"tags": [TAG], "containers": ["any"]}, False),
        ("atlas/athena:2", False, {"containers": ["any"]}, True),
        ("atlas/athena:2", False, {"containers": ["/cvmfs"]}, True),
        ("docker://atlas/x", False, {"containers": ["docker://"]}, True),
        ("other://atlas/x", False, {"containers": ["docker://"]}, False),
        ("atlas/everywhere:1", False, {"containers": ["/cvmfs/unpacked"]}, True),
        ("atlas/nowhere:1", False, {"containers": ["/cvmfs/unpacked"]}, False),
    ],
)
def test_fat_containers_are_found_by_tag_by_prefix_or_through_the_all_queue(
    name, only_tags, published, expected
) -> None:
    everywhere = {"tags": [{"container_name": "atlas/everywhere:1", "sources": ["/cvmfs/unpacked/everywhere"]}]}
    found = lack(published, needing(container=name, only_tags=only_tags), ALL=everywhere)
    assert (found is Lack.NOTHING) is expected


@pytest.mark.parametrize(
    ("arch", "accepted"), [(["x86_64"], True), ([""], True), (["x86_64", "excl"], True), (["arm64"], False)]
)
def test_tasks_with_an_architecture_are_accepted_as_in_the_documents_example(arch, accepted) -> None:
    found = lack({"architectures": [{"type": "cpu", "arch": arch}]}, needing("#x86_64"))
    assert found is (Lack.NOTHING if accepted else Lack.CPU)


def test_an_expression_matches_several_architectures() -> None:
    for arch in ("x86_64", "aarch64"):
        assert lack({"architectures": [{"type": "cpu", "arch": [arch]}]}, needing("#(x86_64|aarch64)")) is Lack.NOTHING
    assert lack({"architectures": [{"type": "cpu", "arch": ["arm64"]}]}, needing("#(x86_64|aarch64)")) is Lack.CPU


def test_excl_takes_only_tasks_that_name_the_attribute() -> None:
    cpu = {"type": "cpu", "arch": ["x86_64"], "vendor": ["intel", "excl"]}
    assert lack({"architectures": [cpu]}, needing("#x86_64-intel")) is Lack.NOTHING
    assert lack({"architectures": [cpu]}, needing("#x86_64")) is Lack.CPU
    assert lack({"architectures": [cpu]}, needing()) is Lack.CPU
    gpu = {"type": "gpu", "vendor": ["nvidia", "excl"], "model": ["kt100"]}
    assert lack({"architectures": [gpu]}, needing()) is Lack.GPU


@pytest.mark.parametrize(
    ("wanted", "accepted"),
    [("&nvidia", True), ("&nvidia-kt100", True), ("&nvidia-other", False), ("&amd", False),
     ("&nvidia:cuda>=11.0", True), ("&nvidia:cuda>=12.5", False), ("&nvidia:vram>=1", True),
     ("&nvidia:model=.*", True), ("&nvidia:model!=.*", False)],
)  # fmt: skip
def test_gpus_are_matched_by_vendor_model_and_what_is_published(wanted, accepted) -> None:
    gpu = {"type": "gpu", "vendor": ["nvidia"], "model": ["kt100"], "version": ["12.0"]}
    assert lack({"architectures": [gpu]}, needing(wanted)) is (Lack.NOTHING if accepted else Lack.GPU)
    assert lack({"architectures": []}, needing(wanted)) is Lack.GPU


def test_an_implied_cpu_does_not_exclude_queues_that_describe_none() -> None:
    assert lack({"cvmfs": ["any"], "containers": ["any"]}, RELEASE) is Lack.NOTHING
    published = {"cvmfs": ["any"], "containers": ["any"], "architectures": [{"type": "cpu", "arch": ["aarch64"]}]}
    assert lack(published, RELEASE) is Lack.CPU


def test_a_tasks_row_says_what_software_it_needs() -> None:
    row = {"trans_home": "AthSimulation-23.0.53", "architecture": PLATFORM}
    needs = software_of_task(row, rules_of({"onlyTagsForFC": True}))
    assert (needs.project, needs.release, needs.nightly, needs.only_tags) == ("AthSimulation", "23.0.53", False, True)
    old = software_of_task({"trans_home": "AnalysisTransforms-AtlasDerivation_20.7.6"}, rules_of(None))
    assert (old.project, old.release) == ("AtlasDerivation", "20.7.6")


def comparable(case: dict[str, Any]) -> bool:
    """Arguments that the document has: no GPU data of worker nodes, nothing that demands cvmfs or only the platform."""
    given = case["in"]["args"]
    return given["host_gpu_spec"] is None and not given["need_cvmfs"] and not given["cmt_config_only"]


def needs_of_case(given: dict[str, Any]) -> SoftwareNeeds:
    specs = tuple(CpuSpec(one["arch"], one["vendor"], one["instr"]) for one in given["host_cpu_specs"] or ())
    return SoftwareNeeds(
        Architecture(given["cmt_config"] or "", "base" if given["need_container"] else "", specs),
        project=given["sw_project"] or "",
        release=given["sw_version"] or "",
        nightly=given["cvmfs_tag"] == "nightlies",
        container=given["container_name"] or "",
        only_tags=given["only_tags_fc"],
    )


@pytest.mark.parametrize("number", [n for n, one in enumerate(sample("jsonsoftware")["cases"]) if comparable(one)])
def test_published_software_is_judged_as_in_the_field(number) -> None:
    given, out = (sample("jsonsoftware")["cases"][number][key] for key in ("in", "out"))
    software = {name: QueueSoftware.model_validate(one) for name, one in given["sw_map"].items()}
    needs = needs_of_case(given["args"])
    for queue in given["queues"]:
        name = queue["name"]
        if queue["releases"] != ["AUTO"] or name not in software:
            continue  # the field leaves these to another check, or excludes them where the document takes ANY
        found = lack_of(a_queue(name, releases=("AUTO",)), software, needs) is Lack.NOTHING
        one = software[name]
        if found != (name in out["ok"]):
            # By the document a queue whose cvmfs does not help may still have a tag, and its platform counts although
            # the task names a base platform. A task that needs nothing has nothing to be judged by.
            assert found and not needs.container
            assert not needs.asks_for_software or {"any", "atlas", "nightlies"} & set(one.cvmfs), (name, needs, one)


@pytest.mark.parametrize("number", range(len(sample("jsonsoftware")["cases"])))
def test_platforms_are_resolved_as_in_the_field(number) -> None:
    case = sample("jsonsoftware")["cases"][number]
    wanted = case["in"]["resolve"]
    architecture = Architecture(wanted["cmt_config"], wanted["base_platform"] or "")
    for name, published in case["in"]["sw_map"].items():
        if name in case["out"]["resolved"]:
            found = resolve_platform(QueueSoftware.model_validate(published), SoftwareNeeds(architecture))
            assert found == case["out"]["resolved"][name]


def test_gpu_specifications_may_exclude_models() -> None:
    text = '{"gpu_spec": {"vendor": "nvidia", "model": {"pattern": ".*A100.*", "excl": true}}}'
    spec = parse_architecture(text).gpu_spec
    assert spec == GpuSpec("nvidia", ".*A100.*", model_excluded=True)
    gpus = {model: [{"type": "gpu", "vendor": ["nvidia"], "model": [model]}] for model in ("A100-SXM", "H100")}
    assert lack({"architectures": gpus["A100-SXM"]}, needing(text)) is Lack.GPU
    assert lack({"architectures": gpus["H100"]}, needing(text)) is Lack.NOTHING
