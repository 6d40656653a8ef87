"""Sites that advertise themselves: Requirements of site and job, both ways, last, and stations drawn at random."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.job_brokerage.policy.analysis import AnalysisJobBrokerage
from services.job_brokerage.policy.production import ProductionJobBrokerage
from shared.brokerage.decision import Decision
from shared.brokerage.matchmaking import Advert, job_ad, matches, parsed, room
from shared.brokerage.request import JobRequest
from shared.brokerage.world import World
from shared.model.queue import QueueStatus
from tests.unit.brokerage.worlds import a_queue, a_request, a_world

ANY_JOB = job_ad({"Owner": "alice", "RequestMemory": 1000})


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
    assert room(advert, ANY_JOB, 100) == 3
    assert room(advert, ANY_JOB, 2) == 2
    assert room(replace(advert, current_matches=7), ANY_JOB, 100) == 0


def test_requirements_of_the_site_may_ask_about_the_job() -> None:
    advert = Advert("A", requirements='TARGET.Owner == "alice" && TARGET.RequestMemory <= MemoryOfNodes',
                    attributes={"MemoryOfNodes": 2000})  # fmt: skip
    assert matches(advert, ANY_JOB)
    assert not matches(advert, job_ad({"Owner": "bob", "RequestMemory": 1000}))


def test_requirements_of_the_job_may_ask_about_the_site() -> None:
    advert = Advert("A", max_jobs=10, attributes={"Station": "samgrid"})
    assert matches(advert, job_ad({}, 'TARGET.Station == "samgrid"'))
    assert not matches(advert, job_ad({}, 'TARGET.Station == "other"'))


def test_requirements_that_are_undefined_do_not_match() -> None:
    assert not matches(Advert("A", requirements="NoSuchAttribute < 3"), ANY_JOB)


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
