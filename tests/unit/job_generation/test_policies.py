"""Picking, throttle, rules, outcomes, scouts, merging, counters, requirements."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.kinds.registered import kind_of
from services.job_generation.policy import merging
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.memory import next_ram_mb
from services.job_generation.policy.outcomes import Attempts, Ended, attempts_left, of_input, of_output
from services.job_generation.policy.picking import next_pick, wants_scouts
from services.job_generation.policy.values import JobInput, OwnerStanding, PlacedJob, Template, Unit
from services.job_generation.scouts import verdicts as scouts
from services.job_generation.scouts.reports import ScoutReport
from services.job_generation.specification.building import Builder, BuildRequest
from services.job_generation.specification.job_fields import guid_of
from services.job_generation.specification.kind_of_job import NORMAL
from services.job_generation.specification.requirements import requirement_of
from services.job_generation.splitting.limits import Totals
from services.job_generation.throttle.throttle import ThrottleLimits, judge
from shared.model.job_report import JobReport
from shared.task.in_effect import BadRule, rules_of
from shared.task.needs import WorkNeeds
from tests.unit.job_generation.made import GB, a_dataset, a_queue, a_storage, a_task, some_units


@pytest.mark.parametrize(("rule", "value"), [("nFilesPerJob", "many"), ("nGBPerJob", -1), ("nEventsPerJob", True)])
def test_a_rule_that_makes_no_sense_is_refused_with_its_name_and_value(rule: str, value: Any) -> None:
    with pytest.raises(BadRule, match=rule):
        rules_of({rule: value})


def test_units_whose_memory_was_raised_form_picks_of_their_own_and_what_waits_lets_the_others_go_on() -> None:
    dataset = a_dataset(2, n_files=10, n_files_to_be_used=10, n_files_used=3)
    options: Any = {"scouts": False, "max_files": 5000, "max_jobs": 100, "raised": {2: [4000, 8000]}}
    busy: set[tuple[int, int | None]] = set()
    found = []
    while (pick := next_pick([dataset], rules_of({}), busy=frozenset(busy), **options)) is not None:
        found.append((pick.ram_mb, pick.n_files))
        busy.add((2, pick.ram_mb))
    assert found == [(4000, 7), (8000, 7), (None, 7)]


def test_scouts_are_made_once_and_again_only_while_the_task_is_scouting() -> None:
    rules, skips = rules_of({}), rules_of({"skipScout": True})
    assert wants_scouts("ready", rules, scouts_made=False, all_opened=True)
    assert wants_scouts("ready", rules, scouts_made=True, all_opened=False)
    assert not wants_scouts("ready", rules, scouts_made=True, all_opened=True)
    assert wants_scouts("scouting", rules, scouts_made=True, all_opened=True)
    assert not wants_scouts("running", rules, scouts_made=False, all_opened=False)
    assert not wants_scouts("ready", skips, scouts_made=False, all_opened=False)


def test_a_chunk_takes_open_files_of_the_first_dataset_that_no_chunk_works_on() -> None:
    datasets = [
        a_dataset(n, n_files=100, n_files_to_be_used=100, n_files_used=used) for n, used in ((1, 100), (2, 30), (3, 0))
    ]
    options: dict[str, Any] = {"scouts": False, "max_files": 50, "max_jobs": 10}
    pick = next_pick(datasets, rules_of({}), busy=frozenset(), **options)
    assert pick is not None and (pick.dataset_id, pick.n_files, pick.kind) == (2, 50, "normal")
    pick = next_pick(datasets, rules_of({"nFilesPerJob": 3}), busy=frozenset({(2, None)}), **options)
    assert pick is not None and (pick.dataset_id, pick.n_files) == (3, 30)
    assert next_pick(datasets, rules_of({}), busy=frozenset({(2, None), (3, None)}), **options) is None


@pytest.mark.parametrize(
    ("rule", "least"),
    [
        ({}, 1), ({"nFilesPerJob": 3}, 3), ({"nChunksToWait": 4}, 4), ({"nFilesPerJob": 3, "nChunksToWait": 4}, 12),
        ({"nFilesPerJob": 3, "noInputPooling": True}, 1), ({"noInputPooling": True, "nChunksToWait": 4}, 4),
    ],
)  # fmt: skip
def test_jobs_are_made_once_input_of_so_many_jobs_is_there_while_more_is_waited_for(
    rule: dict[str, Any], least: int
) -> None:
    options: dict[str, Any] = {"scouts": False, "max_files": 50, "max_jobs": 10, "busy": frozenset()}
    for n_files in (least - 1, least):
        dataset = a_dataset(2, n_files=100, n_files_to_be_used=n_files)
        pick = next_pick([dataset], rules_of(rule), awaited=[2], **options)
        assert (pick is not None) is (n_files == least)
    few = a_dataset(2, n_files=100, n_files_to_be_used=1)
    assert next_pick([few], rules_of(rule), **options) is not None, "nothing more is waited for"


LOW = ThrottleLimits(n_queue_limit=1000)


@pytest.mark.parametrize(
    ("counts", "limits", "reason"),
    [
        ({"activated": 1001}, LOW, "nothing runs"),
        ({"running": 100, "activated": 1001}, LOW, "more than 2 x 100 running"),
        ({"running": 2000, "defined": 1001}, LOW, "1001 defined jobs"),
        ({"running": 1, "waiting": 2000}, LOW, "waiting jobs"),
        ({"running": 11}, ThrottleLimits(n_running_cap=10), "more than the cap 10"),
        ({"running": 90, "activated": 11}, ThrottleLimits(n_queue_cap=10), "more than the cap 10"),
    ],
)
def test_the_throttle_says_which_rule_stopped_generation(
    counts: dict[str, int], limits: ThrottleLimits, reason: str
) -> None:
    decision = judge(counts, limits)
    assert not decision.passes and decision.max_jobs == 0 and reason in decision.reason
    assert judge(counts, limits, share_is_throttled=False).passes


def test_the_number_of_jobs_of_a_pass_follows_the_bunch_the_cap_and_the_limit() -> None:
    field = ThrottleLimits(n_queue_limit=None)
    assert judge({"running": 1000, "activated": 1950}, field).max_jobs == 250
    assert judge({"running": 0}, ThrottleLimits(n_queue_limit=None, n_queue_cap=1000)).max_jobs == 200
    assert judge({"running": 0}, ThrottleLimits(n_queue_limit=20_000)).max_jobs == 1000


@pytest.mark.parametrize(
    ("counts", "bunch", "limit", "passes"),
    [
        ({}, 500, 2000, True),
        ({"activated": 2000}, 500, 2000, True),
        ({"activated": 2001}, 500, 2000, False),
        ({"running": 100, "activated": 150, "offered": 1900}, 500, 2000, False),
        ({"running": 100, "activated": 150, "offered": 1800}, 500, 2000, True),
        ({"running": 2000, "activated": 3000}, 600, 2400, True),  # not more than 2 x running
    ],
)
def test_the_limit_is_four_bunches_and_counts_what_was_offered(
    counts: dict[str, int], bunch: int, limit: int, passes: bool
) -> None:
    decision = judge(counts, ThrottleLimits())
    assert (decision.numbers["bunch"], decision.numbers["queue_limit"]) == (bunch, limit)
    assert decision.passes is passes


FAILED = Ended("failed", "payload")


def test_only_the_payloads_failure_counts_as_failed() -> None:
    file = Attempts(0, 3)
    assert of_input(FAILED, file).attempts == Attempts(1, 3, 1)
    assert of_input(Ended("failed", "pilot"), file).attempts == Attempts(1, 3, 0)
    assert of_input(Ended("cancelled", "user"), file).attempts == Attempts(1, 3, 0)
    assert of_input(Ended("closed", "dispatch"), file).attempts == Attempts(1, 4, 0)
    assert of_input(Ended("finished"), file).status == "finished"


def test_what_may_be_tried_once_is_not_tried_again_when_its_pilot_was_lost() -> None:
    lost = of_input(Ended("failed", "watchdog"), Attempts(0, 1))
    assert (lost.status, lost.attempts) == ("failed", Attempts(1, 1, 0))
    taken_back = of_input(Ended("closed", "watchdog"), Attempts(0, 1))
    assert (taken_back.status, taken_back.attempts) == ("ready", Attempts(1, 2, 0))


def test_attempts_that_ended_through_our_fault_are_given_back_up_to_a_bound() -> None:
    file, tries = Attempts(0, 3), 0
    while attempts_left(file):
        file = of_input(Ended("closed"), file, max_forgiven=10).attempts
        tries += 1
    assert tries == 13


@given(
    st.lists(st.sampled_from([FAILED, Ended("closed"), Ended("failed", "watchdog"), Ended("failed", "pilot")]),
    max_size=90), st.integers(1, 10), st.one_of(st.none(), st.integers(1, 5)),
)  # fmt: skip
def test_attempts_never_exceed_their_limits_whatever_happens(
    ends: list[Ended], most: int, max_failure: int | None
) -> None:
    file = Attempts(0, most, 0, max_failure)
    for end in ends:
        if not attempts_left(file):
            break
        outcome = of_input(end, file)
        file = outcome.attempts
        assert file.attempt_nr <= (file.max_attempt or 0) and file.failed_attempt <= file.attempt_nr
        assert (outcome.status == "ready") == attempts_left(file)
        assert max_failure is None or file.failed_attempt <= max_failure


def test_outputs_of_a_job_that_did_not_run_are_cancelled_and_of_one_that_failed_are_failed() -> None:
    ends = (Ended("finished"), FAILED, Ended("closed"), Ended("cancelled"))
    assert [of_output(one, is_registered=True) for one in ends] == ["finished", "failed", "cancelled", "cancelled"]


def test_the_log_of_a_failed_job_is_finished_where_it_is_registered_and_what_may_be_left_out_is_nooutput() -> None:
    assert [of_output(FAILED, is_registered=one, is_log=True) for one in (True, False)] == ["finished", "failed"]
    assert of_output(Ended("finished"), is_registered=False) == "nooutput"


def test_half_of_the_scouts_are_enough_and_a_rate_below_the_wanted_one_gives_the_task_up() -> None:
    def verdict(ok: int, failed: int, jobs_ok: int, jobs_failed: int, rate: int | None = None) -> scouts.ScoutsResult:
        return scouts.judge(scouts.ScoutProgress(10, ok, failed, jobs_ok, jobs_failed), rate)

    assert verdict(5, 0, 5, 0).go
    assert not verdict(4, 0, 4, 0).go and not verdict(4, 0, 4, 0).give_up
    assert verdict(1, 9, 1, 9).go  # one success is enough where no rate is asked for
    assert verdict(1, 9, 1, 9, rate=5).give_up
    assert verdict(0, 10, 0, 30).give_up


@pytest.mark.parametrize(
    ("ok", "jobs_ok", "live", "jobs_live", "files_per_job", "go"),
    [
        (9, 1, 1, 1, 1, True),  # one of two jobs
        (1, 1, 9, 1, 1, True),  # one of two jobs, although it had one file of ten
        (8, 1, 2, 2, 1, False),  # one of three jobs, although it had eight files of ten
        (4, 2, 0, 0, 2, False),  # two of five: three are still to be made
        (6, 3, 0, 0, 2, True),
        (5, 5, 0, 0, 1, True),
    ],
)
def test_scout_jobs_are_counted_and_not_their_files(
    ok: int, jobs_ok: int, live: int, jobs_live: int, files_per_job: int, go: bool
) -> None:
    progress = scouts.ScoutProgress(10, ok, 0, jobs_ok, 0, live, jobs_live, files_per_job)
    verdict = scouts.judge(progress, None)
    assert verdict.go is go and not verdict.give_up
    if go:
        assert verdict.reason == f"{jobs_ok} of {progress.scout_jobs} scout jobs succeeded"


def a_report(**values: Any) -> ScoutReport:
    given: dict[str, Any] = {"n_events": 1000, "input_bytes": 100 * 1024**2, "output_bytes": 500 * 1024 * 1000,
                             "walltime_s": 4600.0, "cores": 1, "core_power_hs06": 10.0}  # fmt: skip
    return ScoutReport(**{**given, **values})


def test_small_cpu_times_are_stored_in_thousandths_and_short_samples_ignored() -> None:
    task = {"base_walltime": 600, "cpu_efficiency": 90}
    found = scouts.measured(task, [a_report(walltime_s=700.0)], scouts.ScoutParameters())
    assert (found["cpu_time"], found["cpu_time_unit"]) == (1350, "mHS06sPerEvent")  # 100 x 10 x 0.9 / 1000 x 1.5
    assert "cpu_time" not in scouts.measured(task, [a_report(n_events=9)], scouts.ScoutParameters())
    assert "cpu_time" in scouts.measured(task, [a_report(n_events=9, walltime_s=7 * 3600)], scouts.ScoutParameters())


def test_nothing_is_measured_from_no_scouts_and_fixed_units_stay() -> None:
    assert scouts.measured({}, [], scouts.ScoutParameters()) == {}
    task = {"cpu_time_unit": "HS06sPerEventFixed", "io_intensity": 5, "fixed_units": ["io_intensity"]}
    found = scouts.measured(task, [a_report(max_pss_kb=1024 * 1000)], scouts.ScoutParameters())
    assert "cpu_time" not in found and "io_intensity" not in found and found["ram_count"] == 1000


def unmerged(job_id: int, size_bytes: int = 1000, streams: int = 2) -> list[Unit]:
    return [
        Unit(job_id * 10 + n, f"um{job_id}.{n}", size_bytes, 100, boundary_id=job_id, dataset_id=n)
        for n in range(streams)
    ]


@pytest.mark.parametrize(
    ("rule", "size_bytes", "expected"),
    [
        ({}, 1000, [5]),
        ({"nFilesPerMergeJob": 2}, 1000, [2, 2, 1]),
        ({}, 2 * GB, [2, 2, 1]),
        ({"nGBPerMergeJob": 2}, 2 * GB, [1, 1, 1, 1, 1]),
        ({"nEventsPerMergeJob": 300}, 1000, [3, 2]),
        ({"onSiteMerging": True, "nFilesPerMergeJob": 2, "nEventsPerMergeJob": 100}, 1000, [5]),
        ({"onSiteMerging": True}, 2 * GB, [2, 2, 1]),
        ({"onSiteMerging": True, "nGBPerMergeJob": 20}, 2 * GB, [5]),
    ],
)
def test_merge_groups_end_at_their_limits(rule: dict[str, Any], size_bytes: int, expected: list[int]) -> None:
    producers = merging.producers_of([unit for job in range(1, 6) for unit in unmerged(job, size_bytes)])
    made = merging.groups(producers, rules_of(rule), complete=True)
    assert [len(group) for group in made] == expected
    assert [one.job_id for group in made for one in group] == [1, 2, 3, 4, 5]


def test_merging_on_site_reads_at_most_1000_files_of_all_outputs_in_one_job() -> None:
    rules = rules_of({"onSiteMerging": True})
    producers = merging.producers_of([unit for job in range(1, 502) for unit in unmerged(job)])
    assert [len(one) for one in merging.groups(producers, rules, complete=True)] == [500, 1]
    assert [len(one) for one in merging.groups(producers, rules, complete=False)] == [500]
    assert merging.groups(producers[:499], rules, complete=False) == []
    assert merging.most_producers(rules, 100) == 1001


def test_a_group_that_could_still_grow_waits_for_more() -> None:
    producers = merging.producers_of([unit for job in range(1, 6) for unit in unmerged(job)])
    assert [len(g) for g in merging.groups(producers, rules_of({"nFilesPerMergeJob": 2}), complete=False)] == [2, 2]
    assert merging.groups(producers, rules_of({}), complete=False) == []


def test_counters_are_differences_of_what_states_add() -> None:
    changes = CounterChanges()
    changes.moved(1, "input", "ready", "picked", 3, 300)
    changes.moved(1, "input", "picked", "running", 3, 300)
    changes.moved(1, "input", "running", "finished", 2, 200)
    changes.moved(1, "input", "running", "ready", 1, 100)
    changes.moved(2, "trn_output", None, "running", 2, 0)
    changes.moved(2, "trn_output", "running", "ready", 2, 0)
    changes.moved(3, "output", "running", "running", 1, 0)
    rows = dict(changes.rows())
    assert list(rows) == [1, 2]
    assert (rows[1].n_files_used, rows[1].n_files_finished, rows[1].n_events_used, rows[1].n_files) == (2, 2, 200, 0)
    assert (rows[2].n_files, rows[2].n_files_used, rows[2].n_files_on_hold) == (2, 0, 2)


@pytest.mark.parametrize(("processing_type", "is_urgent"), [("urgent", True), ("evgen", False), (None, False)])
def test_jobs_of_a_task_that_is_called_urgent_have_a_requirement_of_their_own(processing_type, is_urgent) -> None:
    task = a_task(processing_type=processing_type)
    assert requirement_of(task, a_queue(), NORMAL, Totals(1), None).is_urgent is is_urgent


def test_requirements_are_on_a_grid_but_never_above_what_the_queue_has() -> None:
    needs = WorkNeeds(ram_mb=1000, ram_per_core=True, base_ram_mb=500, cpu_time_hs06_s_per_event=90, work_dir_bytes=GB)
    totals = Totals(1, 0, 100, 2 * GB, 2.0 * GB)
    task = a_task({}, needs=needs, core_count=8)
    roomy = requirement_of(task, a_queue(core_count=8, core_power_hs06=10), NORMAL, totals, None)
    assert (roomy.core_count, roomy.ram_mb, roomy.disk_mb, roomy.walltime_s) == (8, 7700, 4000, 3600)
    tight = a_queue(core_count=8, core_power_hs06=10, max_rss_mb=7660, max_work_dir_mb=3600, max_time_s=1000)
    found = requirement_of(task, tight, NORMAL, totals, None)
    assert (found.ram_mb, found.disk_mb, found.walltime_s) == (7660, 3600, 1000)
    assert requirement_of(task, a_queue(core_count=1), NORMAL, totals, 2000).ram_mb == 2300


def test_a_job_that_ran_out_of_memory_gets_the_next_step() -> None:
    report = JobReport("failed", max_pss_kb=2500 * 1024, core_count=1)
    assert next_ram_mb(WorkNeeds(ram_mb=1000), report, None) == 3000
    assert next_ram_mb(WorkNeeds(ram_mb=1000), report, 3000) == 4000
    assert next_ram_mb(WorkNeeds(ram_mb=1000), report, 9000) == 9000


def build(task_rule: dict[str, Any] | None = None, **values: Any) -> Builder:
    task = a_task(task_rule, **values)
    datasets = {1: a_dataset(1), 2: a_dataset(2, "output", stream_name="OUTPUT0"), 3: a_dataset(3, "log")}
    templates = [
        Template(1, 2, "HITS._${SN/P}.root", "OUTPUT0", "output"),
        Template(2, 3, "log._${SN}.tgz", "LOG0", "log"),
    ]
    placed = [PlacedJob(a_queue(write_storages=(a_storage("DISK"),)), JobInput((unit,))) for unit in some_units(2)]
    return Builder(
        BuildRequest(task, NORMAL, datasets[1], datasets, templates, "${IN} ${OUTPUT0} ${SN} ${ATTEMPTNR}", placed,
                     [11, 12], {1: 5, 2: 9}, 1)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("task", "owner", "expected"),
    [
        ({"priority": 1000, "task_type": "anal"}, OwnerStanding(), [1000, 1000]),
        ({"priority": 1000, "task_type": "anal"}, OwnerStanding(n_jobs=4), [1000, 999]),
        ({"priority": 1500, "task_type": "anal"}, OwnerStanding(n_jobs=100, weight=0.5), [1430, 1430]),
        ({"priority": 450, "task_type": "prod"}, OwnerStanding(n_jobs=100, weight=0.5), [450, 450]),
    ],
)
def test_each_fifth_job_of_an_owner_of_analysis_has_one_less(
    task: dict[str, Any], owner: OwnerStanding, expected: list[int]
) -> None:
    builder = build(**task)
    builder.request = replace(builder.request, owner=owner)
    jobs = builder.build()
    assert [job.priority for job in jobs] == [job.spec["currentPriority"] for job in jobs] == expected


@pytest.mark.parametrize(
    ("task", "kind", "expected"),
    [
        ({"prod_source_label": "install"}, "normal", 4100),
        ({"prod_source_label": "install"}, "merge", 5000),
        ({"task_type": "anal", "gshare": "Express Analysis", "priority": 1000}, "normal", 6000),
        ({"task_type": "anal", "gshare": "Express Analysis", "priority": 1000}, "scout", 6000),
        ({"task_type": "anal", "gshare": "Express Analysis", "priority": 1000}, "build", 6500),
        ({"task_type": "anal", "gshare": "Express Analysis", "priority": 1000}, "merge", 5000),
        ({"task_type": "anal", "gshare": "User Analysis", "priority": 1000}, "build", 2000),
        ({"task_type": "prod", "gshare": "Express Analysis", "priority": 450}, "normal", 450),
    ],
)
def test_installations_and_express_work_have_priorities_of_their_own(
    task: dict[str, Any], kind: str, expected: int
) -> None:
    request = replace(build(**task).request, kind=kind_of(kind))
    assert {job.priority for job in Builder(request).build()} == {expected}


def test_jobs_are_named_by_consecutive_serial_numbers_of_each_template() -> None:
    first, second = build().build()
    assert [output.lfn for output in first.outputs] == ["HITS._000005.root", "log._000009.tgz"]
    assert [output.lfn for output in second.outputs] == ["HITS._000006.root", "log._000010.tgz"]
    assert second.spec["jobPars"] == "f1._00001.root HITS._000006.root 6 1"
    assert first.outputs[0].n_events == 100 and first.outputs[1].n_events is None


def test_lists_of_outputs_hold_the_log_but_scope_out_does_not() -> None:
    spec = build().build()[0].spec
    assert spec["outFiles"].split(",")[1] == spec["logFile"] == "log._000009.tgz"
    assert spec["ddmEndPointOut"] == "DISK,DISK"
    assert spec["scopeOut"] == "mc" and spec["scopeLog"] == "mc"


def test_input_that_is_only_counted_is_not_listed_for_the_pilot() -> None:
    builder = build()
    pseudo = dataclasses.replace(builder.request.datasets[1], type="pseudo_input")
    request = dataclasses.replace(builder.request, datasets={**builder.request.datasets, 1: pseudo}, master=pseudo)
    spec = Builder(request).build()[0].spec
    assert spec["inFiles"] == "" and spec["realDatasetsIn"] == "NULL"


def test_a_guid_depends_on_the_seed_and_the_name_only() -> None:
    assert guid_of(1, "a") == guid_of(1, "a") != guid_of(2, "a") != guid_of(1, "b")
    assert len(guid_of(1, "a")) == 36
