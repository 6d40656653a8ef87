"""Sites that advertise themselves: Requirements of site and job, both ways, last, and stations drawn at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_brokerage.policy.adverts import jobs_at
from services.job_brokerage.policy.analysis import AnalysisJobBrokerage
from services.job_brokerage.policy.production import ProductionJobBrokerage
from services.job_generation.kinds.merge.job import MERGE
from services.job_generation.policy.values import JobInput, PlacedJob, QueueFacts, Unit
from services.job_generation.specification.kind_of_job import NORMAL
from services.job_generation.specification.requirements import requirement_of
from services.job_generation.splitting.limits import totals_of
from services.job_generation.supplying.matching import jobs_of
from shared.brokerage.decision import Decision
from shared.brokerage.filters.capability import memory_at_most
from shared.brokerage.matchmaking import Advert, JobFacts, accepted, at_dispatch, job_ad, matches, parsed, refusal
from shared.brokerage.request import JobRequest
from shared.brokerage.world import World
from shared.model.queue import QueueStatus
from shared.model.units import parse_ram
from shared.task.needs import WorkNeeds, needs_of_merge_job, needs_of_task
from tests.unit.brokerage.worlds import a_queue, a_request, a_world
from tests.unit.job_generation.made import a_task

ANY_JOB = JobFacts(task_id=1, owner="alice", priority=100, core_count=1, ram_mb=1000)


def decided(world: World, request: JobRequest, seed: int = 1) -> Decision:
    return ProductionJobBrokerage().decide(world, request, seed)


def three_sites() -> World:
    return a_world([a_queue(f"Q_{site}", site) for site in "ABC"])


def queues(decision: Decision) -> set[str]:
    return {one.queue for one in decision.candidates}


@pytest.mark.parametrize(("matched", "accepts"), [(9, True), (10, False), (11, False)])
def test_a_site_accepts_while_current_matches_are_less_than_max_jobs(matched, accepts) -> None:
    assert matches(Advert("A", max_jobs=10, current_matches=matched), ANY_JOB) is accepts


@pytest.mark.parametrize(("matched", "submitting", "accepts"), [(7, 2, True), (8, 2, False), (7, 3, False)])
def test_jobs_matched_since_the_advertisement_and_submitting_jobs_stay_below_their_limit(
    matched, submitting, accepts
) -> None:
    advert = Advert(
        "A", max_jobs=100, max_submitting_jobs=5, current_jobs=5, current_submitting_jobs=submitting,
        current_matches=matched,
    )  # fmt: skip
    assert matches(advert, ANY_JOB) is accepts


def test_each_job_is_counted_before_the_next_is_asked() -> None:
    advert = Advert("A", max_jobs=10, max_submitting_jobs=3, current_jobs=4, current_matches=4)
    assert accepted(advert, [ANY_JOB] * 100) == [True] * 3 + [False] * 97
    assert accepted(advert, [ANY_JOB] * 2) == [True] * 2
    assert accepted(replace(advert, current_matches=7), [ANY_JOB] * 100) == [False] * 100


def test_each_job_is_asked_about_with_its_own_memory() -> None:
    advert = Advert("A", max_jobs=3, requirements="(CurMatches < MaxJobs) && TARGET.RequestMemory <= 4000")
    small, large = replace(ANY_JOB, ram_mb=4000), replace(ANY_JOB, ram_mb=4001)
    assert accepted(advert, [small, large, small, large, small, small]) == [True, False, True, False, True, False]


def test_requirements_of_the_site_may_ask_about_the_job() -> None:
    advert = Advert("A", requirements='TARGET.Owner == "alice" && TARGET.RequestMemory <= MemoryOfNodes',
                    attributes={"MemoryOfNodes": 2000})  # fmt: skip
    assert matches(advert, ANY_JOB)
    assert not matches(advert, replace(ANY_JOB, owner="bob"))
    assert not matches(advert, replace(ANY_JOB, ram_mb=2001))


def test_requirements_of_the_job_may_ask_about_the_site() -> None:
    advert = Advert("A", max_jobs=10, attributes={"Station": "samgrid"})
    assert matches(advert, replace(ANY_JOB, requirements='TARGET.Station == "samgrid"'))
    assert not matches(advert, replace(ANY_JOB, requirements='TARGET.Station == "other"'))


def test_requirements_that_are_undefined_do_not_match() -> None:
    assert not matches(Advert("A", requirements="NoSuchAttribute < 3"), ANY_JOB)


def test_a_refusal_says_whose_requirements_do_not_hold_and_with_which_values() -> None:
    full = Advert("A", max_jobs=10, current_matches=10)
    found = refusal(full, ANY_JOB)
    assert found is not None
    assert (found.whose, found.reason) == ("site", "site A asks for (CurMatches < MaxJobs) (CurMatches 10, MaxJobs 10)")
    found = refusal(Advert("A", requirements="MY.Nodes > 1 && TARGET.RequestMemory <= Limit"), ANY_JOB)
    assert found is not None and found.reason == (
        "site A asks for MY.Nodes > 1 && TARGET.RequestMemory <= Limit"
        " (Limit not stated, Nodes not stated, RequestMemory 1000)"
    )
    found = refusal(Advert("A"), replace(ANY_JOB, requirements='TARGET.Station == "x"'))
    assert found is not None
    assert (found.whose, found.reason) == ("task", 'the task asks for TARGET.Station == "x" (Station not stated)')
    found = refusal(Advert("A"), replace(ANY_JOB, requirements="1 +"))
    assert found is not None and found.whose == "task" and "not a ClassAd expression" in found.reason


def test_what_a_task_does_not_state_is_undefined_for_the_site() -> None:
    asks = Advert("A", requirements="TARGET.WorkingGroup =?= undefined")
    assert matches(asks, ANY_JOB)
    assert not matches(asks, replace(ANY_JOB, working_group="AP_HIGG"))
    assert job_ad(ANY_JOB).get("VO") is None


def test_at_dispatch_the_jobs_that_filled_the_site_do_not_keep_themselves_back() -> None:
    filled = Advert("A", max_jobs=5, max_submitting_jobs=3, current_jobs=2, current_matches=5)
    assert not matches(filled, ANY_JOB)
    assert matches(at_dispatch(filled), ANY_JOB)
    assert not matches(at_dispatch(replace(filled, current_jobs=5)), ANY_JOB)
    assert not matches(at_dispatch(replace(filled, current_submitting_jobs=3)), ANY_JOB)


def test_requirements_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(ValueError, match="not a ClassAd expression"):
        parsed("CurMatches <")


def test_a_site_whose_advertisement_accepts_nothing_is_left_out_and_others_do_not_need_one() -> None:
    full = Advert("A", max_jobs=5, current_jobs=2, current_matches=5)
    decision = decided(three_sites(), a_request(site_adverts=(full, Advert("B", max_jobs=5))))
    assert queues(decision) == {"Q_B", "Q_C"}
    exclusion = decision.exclusion("Q_A")
    assert exclusion is not None
    assert (exclusion[0].name, exclusion[1], exclusion[2]) == ("advertisement", 5.0, 5.0)


def test_the_reason_names_the_limit_that_was_reached_or_the_requirements() -> None:
    def why(advert: Advert) -> tuple[str, float, float]:
        found = decided(three_sites(), a_request(site_adverts=(advert,))).exclusion("Q_A")
        assert found is not None
        return found[0].name, found[1], found[2]

    submitting = Advert("A", max_jobs=100, max_submitting_jobs=6, current_jobs=3, current_submitting_jobs=2,
                        current_matches=7)  # fmt: skip
    assert why(submitting) == ("advertised_submitting", 6.0, 6.0)
    assert why(Advert("A", max_jobs=100, requirements="false")) == ("requirements", 1.0, 0.0)


def test_queues_of_one_site_are_asked_about_with_the_memory_that_a_job_takes_there() -> None:
    world = a_world([a_queue("Q_ONE", "A", core_count=1, max_rss_mb=4000),
                     a_queue("Q_EIGHT", "A", core_count=8, max_rss_mb=32_000)])  # fmt: skip
    needs = WorkNeeds(core_count=0, ram_mb=2000, ram_per_core=True, cpu_time_hs06_s_per_event=1.0)
    advert = Advert("A", requirements="TARGET.RequestMemory <= 4000 || TARGET.RequestCpus > 8")
    decision = decided(world, a_request(needs=needs, resource_type="", site_adverts=(advert,)))
    assert queues(decision) == {"Q_ONE"}
    exclusion = decision.exclusion("Q_EIGHT")
    assert exclusion is not None and exclusion[0].name == "requirements"


@given(
    task_cores=st.integers(0, 16), queue_cores=st.integers(-1, 16), ram_mb=st.integers(0, 9000), per_core=st.booleans(),
    base_mb=st.integers(0, 1500), most_mb=st.integers(0, 40_000),
)  # fmt: skip
def test_brokerage_generation_and_dispatch_ask_about_the_same_job(
    task_cores: int, queue_cores: int, ram_mb: int, per_core: bool, base_mb: int, most_mb: int
) -> None:
    needs = WorkNeeds(core_count=task_cores, ram_mb=ram_mb, ram_per_core=per_core, base_ram_mb=base_mb)
    world = a_world([a_queue("Q", "A", core_count=queue_cores, max_rss_mb=most_mb)])
    request = a_request(needs=needs, user_name="alice", vo="atlas", priority=300, gshare="MC", task_id=7,
                        processing_type="simul", working_group="AP_HIGG", requirements="true")  # fmt: skip
    [at_brokerage] = jobs_at(world, request, np.array([0]))

    task = a_task(needs=needs, core_count=task_cores, vo="atlas", priority=300, processing_type="simul",
                  working_group="AP_HIGG")  # fmt: skip
    queue = QueueFacts("Q", "SCORE", "A", core_count=max(0, queue_cores), max_rss_mb=most_mb)
    placed = PlacedJob(queue, JobInput((Unit(1, "a"),)))
    [at_generation] = jobs_of(task, "true", NORMAL, [placed])
    assert at_generation == at_brokerage

    shape = requirement_of(task, queue, NORMAL, totals_of(placed.job), None)
    row = {
        "task_id": 7,
        "user_name": "alice",
        "vo": "atlas",
        "prod_source_label": "managed",
        "gshare": "MC",
        "processing_type": "simul",
        "working_group": "AP_HIGG",
        "current_priority": 300,
        "requirements": "true",
    }
    assert JobFacts.of(row, core_count=shape.core_count, ram_mb=shape.ram_mb) == at_brokerage


@given(
    stated=st.none() | st.integers(0, 16), slot=st.integers(1, 16), mb=st.integers(0, 9000),
    unit=st.sampled_from(["MB", "MBPerCore"]),
)  # fmt: skip
def test_brokerage_and_generation_agree_on_cores_and_memory_of_a_merge_job(
    stated: int | None, slot: int, mb: int, unit: str
) -> None:
    row = {"core_count": 8, "ram_count": 500, "merge_core_count": stated, "merge_ram_count": mb, "merge_ram_unit": unit}
    world = a_world([a_queue("Q", "A", core_count=slot, max_rss_mb=0)])
    request = a_request(needs=needs_of_merge_job(row), is_merge=True)
    [at_brokerage] = jobs_at(world, request, np.array([0]))
    task = a_task(needs=needs_of_task(row), core_count=8, merge_core_count=stated, merge_ram=parse_ram(mb, unit))
    queue = QueueFacts("Q", "SCORE", "A", core_count=slot)
    [at_generation] = jobs_of(task, "", MERGE, [PlacedJob(queue, JobInput((Unit(1, "a"),)))])
    cores = {None: 1, 0: slot}.get(stated, stated)
    assert (at_generation.core_count, at_generation.ram_mb) == (at_brokerage.core_count, at_brokerage.ram_mb)
    memory = memory_at_most.decide(world, request)
    assert at_brokerage.core_count == cores and memory is not None
    assert memory.found[0] == int(max(2000, mb * cores if unit == "MBPerCore" else mb) * 0.9)


def test_a_job_whose_files_were_given_more_memory_asks_for_it() -> None:
    queue = QueueFacts("Q", "SCORE", "A", core_count=1, max_rss_mb=8000)
    placed = [PlacedJob(queue, JobInput((Unit(1, "a", ram_mb=raised),))) for raised in (None, 6000)]
    found = jobs_of(a_task(needs=WorkNeeds(ram_mb=2000)), "", NORMAL, placed)
    assert [one.ram_mb for one in found] == [1800, 5400]


def test_advertisements_are_asked_last() -> None:
    world = a_world([a_queue("Q_A", "A", status=QueueStatus.OFFLINE), a_queue("Q_B", "B")])
    decision = decided(world, a_request(site_adverts=(Advert("A", max_jobs=0),)))
    exclusion = decision.exclusion("Q_A")
    assert exclusion is not None and exclusion[0].name == "status"


def test_of_the_sites_with_a_station_of_the_tasks_list_one_is_drawn_at_random() -> None:
    adverts = tuple(Advert(site, max_jobs=5, attributes={"Station": f"station-{site}"}) for site in "ABC")
    request = a_request(site_adverts=adverts, stations=("station-A", "station-B"))
    found = [queues(decided(three_sites(), request, seed)) for seed in range(40)]
    assert all(len(one) == 1 for one in found)
    assert {name for one in found for name in one} == {"Q_A", "Q_B"}
    assert found == [queues(decided(three_sites(), request, seed)) for seed in range(40)]
    decision = decided(three_sites(), request)
    exclusion = decision.exclusion("Q_C")
    assert exclusion is not None and exclusion[0].name == "station"


def test_analysis_asks_advertisements_too() -> None:
    request = a_request(is_analysis=True, label="user", site_adverts=(Advert("A", max_jobs=0),))
    assert queues(AnalysisJobBrokerage().decide(three_sites(), request, 1)) == {"Q_B", "Q_C"}


UNREADABLE = [
    {"attributes": {"Big": 2**63}}, {"attributes": {"Small": -(2**63) - 1}}, {"attributes": {"Text": "\udc00"}},
    {"attributes": {"List": [1, [2**63]]}}, {"attributes": {"Other": {"Text": "\udc00"}}},
    {"max_jobs": 2**63}, {"current_matches": 2**64}, {"requirements": "CurMatches <"},
]  # fmt: skip


@pytest.mark.parametrize("changes", UNREADABLE)
def test_an_advertisement_that_cannot_be_read_keeps_jobs_from_its_own_site_only_and_says_why(changes) -> None:
    bad = Advert("B", **changes)
    assert not matches(bad, ANY_JOB) and accepted(bad, [ANY_JOB, ANY_JOB]) == [False, False]
    # Also of a job that has Requirements of its own, it is the site that is to blame.
    why = refusal(bad, replace(ANY_JOB, requirements="true"))
    assert why is not None and why.whose == "site" and "site B cannot be read" in why.reason
    decision = decided(three_sites(), a_request(site_adverts=(Advert("A", max_jobs=5), bad)))
    assert queues(decision) == {"Q_A", "Q_C"}
    excluded = decision.exclusion("Q_B")
    assert excluded is not None and excluded[0].name == "advertisement_readable"


@pytest.mark.parametrize(
    "expression",
    ['regexp("(a|a?)+$", Owner)', 'RegExps ("a", Owner, "b") == "b"', 'regexpMember("a", {Owner})', 'eval("1")',
     'stringListRegexpMember("a", Owner)', 'stringList_regexpMember("a", Owner)', 'replace("a", Owner, "b") == "b"',
     'true || replaceAll("a", Owner, "b") == "b"'],
)  # fmt: skip
def test_requirements_with_patterns_are_refused_where_they_enter_as_their_time_has_no_bound(expression) -> None:
    with pytest.raises(ValueError, match="is not allowed, as nothing bounds its time; allowed: comparisons"):
        parsed(expression)
    assert not matches(Advert("A", requirements=expression), ANY_JOB)
    why = refusal(Advert("A"), replace(ANY_JOB, requirements=expression))
    assert why is not None and why.whose == "task"


def test_requirements_without_patterns_may_use_functions() -> None:
    requirements = (
        'member(TARGET.Owner, {"bob", "alice"}) && substr(TARGET.Owner, 0, 2) == "al" && evaluated =?= undefined'
    )
    assert matches(Advert("A", requirements=requirements), ANY_JOB)


@pytest.mark.parametrize("expression", ["Requirements", "Name == undefined", "error", "Unheard(1)"])
def test_requirements_that_have_no_answer_are_a_refusal_too(expression) -> None:
    why = refusal(Advert("A", requirements=expression), ANY_JOB)
    assert why is not None and why.whose == "site" and expression.split("(")[0] in why.reason
    decision = decided(three_sites(), a_request(site_adverts=(Advert("A", requirements=expression),)))
    assert queues(decision) == {"Q_B", "Q_C"}
    own = refusal(Advert("A"), replace(ANY_JOB, requirements=expression))
    assert own is not None and own.whose == "task"


def test_the_largest_whole_numbers_can_be_advertised() -> None:
    attributes = {"Big": 2**63 - 1, "Small": -(2**63), "Text": "x" * 500, "Yes": True, "Half": 0.5}
    site = Advert("A", attributes=attributes, requirements="Big == 9223372036854775807 && Yes && Half < 1")
    assert matches(site, ANY_JOB)
