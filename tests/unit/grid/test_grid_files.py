from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared.model.grid import parse_grid, read_grid_folder
from shared.model.link import link_from_dump, links_of, metrics_of
from shared.model.problems import InvalidGrid
from shared.model.queue import queue_from_cric

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"
NOW = datetime(2026, 3, 1, tzinfo=UTC)

QUEUE = {
    "siteid": "Q", "status": "online", "type": "unified", "atlas_site": "S", "capability": "ucore", "corecount": 8,
    "corepower": 11.4, "maxtime": 345600, "maxrss": 16000, "maxwdir": 160000, "releases": ["AUTO"],
    "wnconnectivity": "full#IPv4", "catchall": "nSimEvents=100,disableReassign", "params": {"use_vp": False},
    "astorages": {"read_lan": ["S_DATADISK"], "write_lan": ["S_DATADISK"]},
}  # fmt: skip
STORAGE = {
    "ddm_endpoint_name": "S_DATADISK",
    "site_name": "S",
    "type": "DATADISK",
    "space_total": 100,
    "space_free": 50,
}
LINK = {
    "src": "S", "dst": "S", "closeness": {"latest": 0, "timestamp": "2024-08-08T12:00:03"},
    "files": {"queued": {"Production Output": {"latest": 4, "timestamp": "2024-08-08T12:30:05"}}},
    "mbps": {"dashb": {"1d": 3.5, "timestamp": "2024-08-08T12:35:16"}},
}  # fmt: skip


def files(**changes: Any) -> dict[str, Any]:
    valid = {
        "queues": {"Q": QUEUE}, "sites": {"S": {"name": "S", "state": "ACTIVE", "datapolicies": ["Nucleus"]}},
        "storages": {"S_DATADISK": STORAGE}, "network_metrics": {"S:S": LINK},
    }  # fmt: skip
    return copy.deepcopy({**valid, **changes})


def problems(content: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidGrid) as refused:
        parse_grid(content)
    return [str(problem) for problem in refused.value.problems]


def test_the_shipped_grid_is_valid_and_large_enough() -> None:
    grid = parse_grid(read_grid_folder(EXAMPLES / "grid"))
    assert len(grid.queues) >= 40
    assert len({queue.site for queue in grid.queues.values()}) >= 30
    assert sum(site.is_nucleus for site in grid.sites.values()) >= 5
    assert grid.links and grid.software and grid.shares


def test_the_full_grid_has_every_link_and_every_queue_with_a_site() -> None:
    grid = parse_grid(read_grid_folder(EXAMPLES / "grid_full"))
    assert (len(grid.queues), len(grid.links)) == (146, 15377)


def test_each_nucleus_of_the_shipped_grid_has_a_queue_and_a_disk() -> None:
    grid = parse_grid(read_grid_folder(EXAMPLES / "grid"))
    with_queues = {queue.site for queue in grid.queues.values() if queue.status == "online"}
    for site in grid.sites.values():
        if site.is_nucleus:
            assert site.name in with_queues and site.default_storage in grid.storages


def test_a_record_keeps_its_names_and_becomes_unit_named_fields() -> None:
    queue = parse_grid(files()).queues["Q"]
    assert (queue.core_count, queue.core_power_hs06, queue.max_rss_mb, queue.max_time_s) == (8, 11.4, 16000, 345600)
    assert (queue.connectivity, queue.ip_stack) == ("full", "IPv4")
    assert queue.options == {"nSimEvents": "100", "disableReassign": "true", "use_vp": "false"}
    assert queue.is_unified and queue.read_storages == ("S_DATADISK",)


@pytest.mark.parametrize(
    ("catchall", "expected"),
    [("disableReassign", True), ("disableReassign=1", True), ("disableReassign=no", False),
     ("disableReassign=False", False), ("disableReassign=0", False), ("", False)],
)  # fmt: skip
def test_an_option_is_one_that_is_named_and_not_switched_off(catchall: str, expected: bool) -> None:
    queue = parse_grid(files(queues=[{**QUEUE, "catchall": catchall}])).queues["Q"]
    assert queue.has("disableReassign") is expected
    assert not queue.runs_jumbo_jobs


def test_a_list_of_records_is_as_good_as_an_object() -> None:
    assert parse_grid(files(queues=[QUEUE], storages=[STORAGE])).queues.keys() == {"Q"}


def test_times_are_shifted_so_that_the_newest_is_now() -> None:
    link = parse_grid(files(), now=NOW).links["S", "S"]
    assert link.mbps_at == NOW
    assert link.queued_at is not None and (NOW - link.queued_at).total_seconds() == 311
    kept = parse_grid(files()).links["S", "S"]
    assert kept.mbps_at == datetime(2024, 8, 8, 12, 35, 16, tzinfo=UTC)


def test_every_problem_is_listed_with_file_key_and_field() -> None:
    bad_queue = {**QUEUE, "status": "sleepy", "corecount": "eight", "maxtime": -1}
    bad_storage = {**STORAGE, "space_total": -5}
    found = problems(files(queues={"Q": bad_queue}, storages={"S_DATADISK": bad_storage}))
    text = "\n".join(found)
    for fragment in (
        "queues.json: Q: status",
        "queues.json: Q: corecount",
        "queues.json: Q: maxtime",
        "storages.json: S_DATADISK: space_total",
    ):
        assert fragment in text
    assert "sleepy" in text and "online" in text


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"queues": {"Q": {**QUEUE, "atlas_site": "NOWHERE"}}}, "site 'NOWHERE' is not in sites.json"),
        ({"queues": {"Q": {**QUEUE, "astorages": {"read_lan": ["X"]}}}}, "storage 'X' is not in storages.json"),
        ({"queues": {"Q": {**QUEUE, "minrss": 9000, "maxrss": 8000}}}, "minrss: 9000 is larger than maxrss 8000"),
        ({"queues": {"Q": {**QUEUE, "wnconnectivity": "full#IPv5"}}}, "wnconnectivity"),
        ({"queues": {"Q": {**QUEUE, "siteid": "R"}}}, "differs from the key"),
        ({"queues": {"": {}}}, "siteid"),
        ({"queues": "none"}, "must be an object"),
        ({"queues": {"Q": 5}}, "is not an object"),
        ({"storages": {"S_DATADISK": {**STORAGE, "space_free": 500}}}, "more than space_total"),
        ({"network_metrics": {"S-S": LINK}}, "not source:destination"),
        ({"network_metrics": {"S:S": {"closeness": {"latest": 12}}}}, "not a number from -1 to 11"),
        ({"network_metrics": {"S:S": {"mbps": {"dashb": {"1h": "fast"}}}}}, "mbps.dashb.1h"),
        ({"network_metrics": {"S:S": {"closeness": {"timestamp": "noon"}}}}, "not a time"),
        ({"software_map": {"OTHER": {}}}, "is not a queue"),
        ({"resource_types": [{"resource_name": "SCORE", "mincore": -1}]}, "whole number"),
        ({"shares": [{"name": "A", "value": 1, "parent": "B"}]}, "'B' is not a share"),
        ({"shares": [{"name": "A", "value": 1, "parent": "A"}]}, "circle"),
        ({"shares": [{"name": "A", "value": 1, "prodsourcelabel": "("}]}, "regular expression"),
        ({"weather": {}}, "is not a file of a grid"),
    ],
)  # fmt: skip
def test_a_grid_with_one_fault_is_refused_whole(change, fragment) -> None:
    found = problems(files(**change))
    assert any(fragment in problem for problem in found), found


def test_a_missing_file_is_named() -> None:
    content = files()
    del content["sites"]
    assert any(problem.startswith("sites.json: is missing") for problem in problems(content))


def test_a_queue_without_storage_is_allowed_because_brokerage_names_it_as_a_reason() -> None:
    assert not parse_grid(files(queues={"Q": {**QUEUE, "astorages": {}}})).queues["Q"].write_storages


def test_further_rules_for_queues_can_be_added() -> None:
    def no_policies(queue):
        from shared.model.problems import Problem

        return [Problem("queues.json", queue.name, "fairsharepolicy", "not today")]

    with pytest.raises(InvalidGrid, match="not today"):
        parse_grid(files(), checks=[no_policies])


def test_links_survive_the_way_through_stored_metrics() -> None:
    link = link_from_dump("S:S", LINK)
    assert not isinstance(link, list)
    again = links_of(metrics_of([link], NOW))
    assert again == {("S", "S"): link}


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "queues.json").write_text("{")
    with pytest.raises(InvalidGrid, match=r"queues\.json: cannot be read"):
        read_grid_folder(tmp_path)


def test_null_values_of_cric_count_as_not_stated() -> None:
    queue = queue_from_cric("Q", {**QUEUE, "maxdiskio": None, "corecount": None, "catchall": None, "releases": None})
    assert not isinstance(queue, list)
    assert (queue.max_disk_io_kb_s, queue.core_count, queue.releases) == (0, 0, ())
