"""One simulated pilot, driven without clock and network."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from services.cli.pilots import _queues
from services.cli.simulated_pilots.allocation import Allocation, QueueSite, queue_from_record
from services.cli.simulated_pilots.behaviour import Call, Phase, Pilot, PilotEnd, Slot, Wait
from services.cli.simulated_pilots.payload import draw, events_of
from services.cli.simulated_pilots.profile import Fault, Profile, rates_from

SPEC: dict[str, Any] = {
    "PandaID": 11, "taskID": 5, "attemptNr": 2, "coreCount": 8, "minRamCount": 16_000, "maxWalltime": 40_000,
    "jobPars": "--inputFile=a --maxEvents=2000 --outputFile=o.root", "inFiles": "a.root", "outFiles": "o.root,l.tgz",
    "ddmEndPointOut": "D1,D2", "logFile": "l.tgz", "logGUID": "11111111-2222",
}  # fmt: skip
NO_JOB = {"StatusCode": 20, "jobs": []}
OK = {"StatusCode": 0, "command": "NULL"}


def quiet(**rates: float) -> Profile:
    return Profile(seed=3, rates={Fault(name): rate for name, rate in rates.items()})


def pilot(profile: Profile | None = None) -> Pilot:
    return Pilot("fleet-1", Slot("Q1", "node1", {"memory": 16_000}), profile or quiet())


def live(one: Pilot, *, jobs: int = 1, most: int = 500) -> list[tuple[str, dict[str, Any]]]:
    """Answer everything well, one job after the other; what was called until no job was given any more."""
    now, calls, left = 0.0, [], jobs
    for _ in range(most):
        action = one.next(now)
        if isinstance(action, PilotEnd):
            return calls
        if isinstance(action, Wait):
            assert action.until_s > now
            now = action.until_s
            continue
        calls.append((action.method, dict(action.fields)))
        if action.method == "acquire_jobs":
            given = {"StatusCode": "0", "jobs": [{**SPEC, "PandaID": 11 + left}]} if left else NO_JOB
            left -= 1 if left else 0
            one.answered(now, given)
        else:
            one.answered(now, OK)
    raise AssertionError("the pilot never ends")


def states(calls: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [fields["job_status"] for method, fields in calls if method == "update_job"]


def test_a_job_is_reported_as_real_pilots_do() -> None:
    one = pilot()
    calls = live(one)
    assert calls[0] == ("acquire_jobs", {"memory": 16_000, "site_name": "Q1", "node": "node1"})
    assert states(calls)[:3] == ["starting", "running", "running"] and states(calls)[-1] == "finished"
    final = calls[-2][1]
    outputs = json.loads(final["job_output_report"])
    assert set(outputs) == {"o.root", "l.tgz"} and outputs["l.tgz"]["guid"] == "11111111-2222"
    assert outputs["o.root"]["endpoint"] == "D1" and outputs["o.root"]["fsize"] > 1_000_000
    assert final["n_events"] == 2000 and final["max_pss"] <= 16_000 * 1024 and final["attempt_nr"] == 2
    assert int(final["pilot_timing"].split("|")[2]) > 300
    assert one.outcomes == {"finished": 1}


def test_heartbeats_are_sent_while_the_payload_runs() -> None:
    frequent = Profile(seed=3, rates={}, heartbeat_s=60.0)
    assert states(live(pilot(frequent))).count("running") > 4


def test_one_pilot_runs_one_job_after_the_other() -> None:
    one = pilot()
    calls = live(one, jobs=3)
    keys = [method for method, _ in calls].count("acquire_jobs")
    assert keys == 4 and one.outcomes == {"finished": 3}


def test_a_lost_acquire_is_repeated_with_its_key_and_the_next_has_another() -> None:
    one = pilot()
    first = one.next(0)
    one.unanswered(0)
    wait = one.next(1.0)
    assert isinstance(wait, Wait)
    again = one.next(wait.until_s)
    assert first == again and isinstance(first, Call) and first.key
    one.answered(100, {"StatusCode": 0, "jobs": [SPEC]})
    now = 100.0
    while not isinstance(action := one.next(now), Call) or action.method != "acquire_jobs":
        if isinstance(action, Wait):
            now = action.until_s
        else:
            one.answered(now, OK)
    assert action.key not in (None, first.key)


def test_a_final_report_is_repeated_until_it_is_heard_later_each_time() -> None:
    one = pilot()
    now, waits, n_final = 0.0, [], 0
    while n_final < 5:
        action = one.next(now)
        if isinstance(action, Wait):
            if n_final:
                waits.append(action.until_s - now)
            now = action.until_s
        elif isinstance(action, Call) and action.fields.get("job_status") == "finished":
            n_final += 1
            one.unanswered(now) if n_final < 5 else one.answered(now, OK)
        elif isinstance(action, Call):
            one.answered(now, {"StatusCode": 0, "jobs": [SPEC]} if action.key else OK)
    assert waits == sorted(waits) and len(waits) == 4 and waits[-1] > waits[0]
    assert one.outcomes == {"finished": 1}


def test_a_lost_heartbeat_is_not_repeated_at_once() -> None:
    one = pilot(Profile(seed=3, rates={}, heartbeat_s=10.0))
    one.answered(0, {"StatusCode": 0, "jobs": [{**SPEC, "inFiles": ""}]})
    now = 0.0
    while one.phase is not Phase.RUNNING or one._unsent:
        action = one.next(now)
        now = action.until_s if isinstance(action, Wait) else now
        if isinstance(action, Call):
            one.answered(now, OK)
    beat = one.next(one._next_beat_s)
    assert isinstance(beat, Call)
    one.unanswered(one._next_beat_s)
    assert isinstance(one.next(now + 11), Wait)


def test_told_to_stop_it_drops_the_job_and_asks_for_another() -> None:
    one = pilot()
    one.answered(0, {"StatusCode": 0, "jobs": [SPEC]})
    one.next(0)
    one.answered(0, {"StatusCode": 0, "command": "tobekilled"})
    action = one.next(0)
    assert isinstance(action, Call) and action.method == "acquire_jobs"
    assert one.outcomes == {"told to stop": 1}


def test_no_job_ends_the_pilot() -> None:
    one = pilot()
    one.next(0)
    one.answered(0, {"StatusCode": "20"})
    assert one.next(0) == PilotEnd("no job")


@pytest.mark.parametrize(
    ("fault", "last", "code"),
    [("payload", "failed", 1305), ("memory", "failed", 1235), ("stage_out", "failed", 1137)],
)
def test_failures_are_reported_with_the_codes_of_pilots(fault: str, last: str, code: int) -> None:
    calls = live(pilot(quiet(**{fault: 1.0})))
    final = [fields for method, fields in calls if method == "update_job"][-1]
    assert final["job_status"] == last and final["pilot_error_code"] == code
    assert (final["max_pss"] > 16_000 * 1024) is (fault == "memory")


def test_a_vanished_and_a_silent_pilot_leave_their_jobs_behind() -> None:
    vanished, silent = pilot(quiet(vanish=1.0)), pilot(quiet(silent=1.0))
    assert states(live(vanished))[-1] == "running" and vanished.outcomes == {"vanished": 1}
    assert states(live(silent)) == [] and silent.next(0) == PilotEnd("silent", leaves_job=True)


def test_a_duplicate_is_sent_twice_and_a_bad_report_once_as_no_pilot_sends_another() -> None:
    assert states(live(pilot(quiet(duplicate=1.0)))).count("finished") == 2
    one = pilot(quiet(bad_report=1.0))
    finals = [fields for method, fields in live(one) if fields.get("job_status") == "finished"]
    assert len(finals) == 1 and one.outcomes == {"bad_report": 1}
    with pytest.raises(json.JSONDecodeError):
        json.loads(finals[0]["job_output_report"])


def test_a_terminated_pilot_blames_itself() -> None:
    one = pilot()
    one.answered(0, {"StatusCode": 0, "jobs": [SPEC]})
    one.terminate(1)
    call = one.next(1)
    assert isinstance(call, Call)
    assert call.fields["job_status"] == "failed" and call.fields["pilot_error_code"] == 1201
    one.answered(1, OK)
    assert isinstance(one.next(1), PilotEnd)


def test_a_job_is_the_same_whoever_runs_it_and_another_seed_makes_another() -> None:
    assert draw(SPEC, Profile(seed=1)) == draw(dict(SPEC), Profile(seed=1))
    assert draw(SPEC, Profile(seed=1)) != draw(SPEC, Profile(seed=2))
    assert draw(SPEC, Profile(seed=1)) != draw({**SPEC, "PandaID": 12}, Profile(seed=1))


def test_walltime_grows_with_events_and_ends_below_the_limit() -> None:
    def walltime(n_events: int) -> float:
        return draw({**SPEC, "jobPars": f"--maxEvents {n_events}"}, quiet()).walltime_s

    assert walltime(10) < walltime(10_000) <= 0.8 * 40_000
    assert events_of({"jobPars": "--nothing"}) is None


def test_rates_are_met_and_impossible_ones_refused() -> None:
    profile = Profile(seed=9, rates=rates_from({"payload": 0.3, "vanish": 0.1}))
    drawn = Counter(draw({**SPEC, "PandaID": one}, profile).fault for one in range(1, 2001))
    assert 520 < drawn[Fault.PAYLOAD] < 680 and 150 < drawn[Fault.VANISH] < 250
    for wrong, said in (
        ({"explode": 0.1}, "not a kind"),
        ({"payload": 1.5}, "rate from 0 to 1"),
        ({"payload": 0.9, "vanish": 0.9}, "add up"),
    ):
        with pytest.raises(ValueError, match=said):
            rates_from(wrong)


def test_pilots_visit_every_queue_once_and_then_go_where_jobs_wait() -> None:
    queues = [QueueSite(name, weight, {}) for name, weight in (("A", 100), ("B", 10), ("C", 1))]
    allocation = Allocation(queues, random.Random(1))
    first = [allocation.next_queue(exploring=False) for _ in range(3)]
    assert sorted(one.name for one in first if one) == ["A", "B", "C"]
    for one in first:
        allocation.asked(one.name, got_job=False)  # type: ignore[union-attr]
    assert allocation.next_queue(exploring=False) is None
    allocation.set_demand({"C": 2, "elsewhere": 100})
    sent = [allocation.next_queue(exploring=False) for _ in range(3)]
    assert [one.name if one else None for one in sent] == ["C", "C", None]
    explored = Counter(allocation.next_queue(exploring=True).name for _ in range(300))  # type: ignore[union-attr]
    assert explored["A"] > explored["B"] > explored["C"]


def test_offers_are_made_of_the_queue_record() -> None:
    record = {
        "queue": "Q",
        "status": "online",
        "type": "analysis",
        "data": {"maxrss": 4000, "maxwdir": 100, "pledgedcpu": 7},
    }
    found = queue_from_record(record)
    assert found is not None and found.weight == 7
    assert found.offer["prod_source_label"] == "user" and found.offer["memory"] == 4000
    assert queue_from_record({**record, "status": "offline"}) is None


def test_fixed_queues_share_the_pilots() -> None:
    assert _queues(["A=3", "B", "C"], 10) == {"A": 3, "B": 4, "C": 3}
    for wrong in ("=3", "A=x", "A=0"):
        with pytest.raises(ValueError, match="not allowed"):
            _queues([wrong], 10)


def test_the_end_of_each_job_is_told_when_it_ends_and_not_when_its_pilot_does() -> None:
    told: list[str] = []
    one = Pilot("fleet-1", Slot("Q1", "node1", {}), quiet(), on_end=told.append)
    now = 0.0
    while not told:
        action = one.next(now)
        assert not isinstance(action, PilotEnd)
        if isinstance(action, Wait):
            now = action.until_s
        else:
            one.answered(now, {"StatusCode": "0", "jobs": [SPEC]} if action.method == "acquire_jobs" else OK)
    assert told == ["finished"] and not isinstance(one.next(now), PilotEnd)


def test_a_job_with_event_service_takes_and_reports_ranges_until_there_are_no_more() -> None:
    one, now, calls = pilot(), 0.0, list[tuple[str, dict[str, Any]]]()
    spec = {**SPEC, "eventService": "True", "jobsetID": 9}
    ranges = [[{"eventRangeID": f"5-11-7-{number}-10"} for number in (1, 2)], [{"eventRangeID": "5-11-7-3-10"}], []]
    while not calls or calls[-1][1].get("job_status") != "finished":
        action = one.next(now)
        assert not isinstance(action, PilotEnd)
        if isinstance(action, Wait):
            now = action.until_s
            continue
        calls.append((action.method, dict(action.fields)))
        if action.method == "acquire_jobs":
            one.answered(now, {"StatusCode": 0, "jobs": [spec]})
        else:
            one.answered(now, {"reply": ranges.pop(0)} if action.method == "acquire_event_ranges" else OK)
    of_ranges = [(method, fields) for method, fields in calls if method.endswith("event_ranges")]
    assert [method for method, _ in of_ranges] == ["acquire_event_ranges", "update_event_ranges"] * 2 + [
        "acquire_event_ranges"
    ]
    assert of_ranges[0][1] == {"job_id": 11, "task_id": 5, "jobset_id": 9, "n_ranges": 30}
    [group] = of_ranges[1][1]["event_ranges"]
    assert [row["eventRangeID"] for row in group["eventRanges"]] == ["5-11-7-1-10", "5-11-7-2-10"]
    assert group["zipFile"]["numEvents"] == 2
