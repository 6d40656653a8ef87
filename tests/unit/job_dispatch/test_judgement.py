"""What reports mean, whose failure it was, and where jobs go: pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message

from services.job_dispatch.api.body import REPORT, BadBody, fields_of
from services.job_dispatch.api.report_fields import read_report
from services.job_dispatch.policy.commands import steps_of
from services.job_dispatch.policy.inputs import InputNeed, JobAtQueue, plan_inputs
from services.job_dispatch.policy.outputs import HeldOutput, HoldingJob, plan_outputs
from services.job_dispatch.policy.reports import (
    MISSING_OUTPUT,
    Effect,
    ExpectedOutput,
    Report,
    ReportedJob,
    blame,
    ending,
    judge,
)
from shared.model.job_report import JobReport
from shared.model.outputs_by_expression import files_by_expression
from shared.states import JOB, Owner
from shared.states.job import LIVE, MEANINGS


def row(status: str, attempt: int = 1, command: str | None = None) -> ReportedJob:
    return ReportedJob(1, 1, status, attempt, "Q", "SCORE", "MC", "alice", 8, command)


@pytest.mark.parametrize(
    ("subject", "claimed_by", "changes"),
    [("alice", "alice", True), ("bob", "bob", True), ("bob", "alice", False), ("bob", None, False)],
)
def test_a_user_reports_own_jobs_and_those_that_a_group_shared_with_them(
    subject: str, claimed_by: str | None, changes: bool
) -> None:
    report = Report(1, "running", 1, subject=subject, own_only=True)
    verdict = judge(report, replace(row("sent"), claimed_by=claimed_by))
    assert (verdict.effect is not Effect.NOTHING) == changes


def test_every_report_in_every_state_is_a_legal_move_or_none() -> None:
    for status in MEANINGS:
        for reported in ("starting", "running", "holding", "transferring", "finished", "failed"):
            verdict = judge(Report(1, reported), row(status))
            if verdict.effect not in (Effect.NOTHING, Effect.HEARTBEAT):
                JOB.check(status, verdict.effect.value, Owner.JOB_DISPATCH)
            assert verdict.command


def test_only_jobs_with_a_pilot_are_changed_by_reports() -> None:
    for status in set(MEANINGS) - {"sent", "starting", "running"}:
        assert judge(Report(1, "finished"), row(status)).effect is Effect.NOTHING


@pytest.mark.parametrize(
    ("reported", "status", "effect"),
    [
        ("starting", "sent", Effect.STARTING), ("starting", "running", Effect.HEARTBEAT),
        ("running", "sent", Effect.RUNNING), ("running", "starting", Effect.RUNNING),
        ("running", "running", Effect.HEARTBEAT), ("holding", "running", Effect.HEARTBEAT),
        ("finished", "sent", Effect.HOLDING), ("finished", "running", Effect.HOLDING),
        ("failed", "starting", Effect.FAILED),
    ],
)  # fmt: skip
def test_reports_of_the_owner(reported: str, status: str, effect: Effect) -> None:
    assert judge(Report(1, reported, 1), row(status)).effect is effect


def test_a_pilot_of_another_attempt_or_of_an_unknown_job_is_told_to_stop() -> None:
    assert judge(Report(1, "running", 1), row("running", attempt=2)).command == "tobekilled"
    assert judge(Report(1, "finished", 1), None).command == "tobekilled"
    assert judge(Report(1, "finished", 1), None, (1,)).command == "alreadydone"
    assert judge(Report(1, "finished", 2), None, (1,)).command == "tobekilled"
    assert judge(Report(1, "finished", 1), row("holding"), (1,)).command == "alreadydone"
    assert judge(Report(1, "running", 1), row("failed"), ()).command == "tobekilled"


@pytest.mark.parametrize(
    ("claimed_by", "attempt", "is_trusted", "is_named", "may"),
    [
        (None, None, False, False, False), (None, 1, False, False, True), (None, 2, False, False, False),
        (None, None, True, False, True), (None, None, False, True, True), ("pilot-1", None, False, False, True),
        ("pilot-2", 1, False, False, False),
    ],
)  # fmt: skip
def test_without_its_attempt_number_a_report_ends_no_job_whose_claimant_is_unknown(
    claimed_by: str | None, attempt: int | None, is_trusted: bool, is_named: bool, may: bool
) -> None:
    report = Report(1, "failed", attempt, subject="pilot-1", is_trusted=is_trusted)
    verdict = judge(report, replace(row("running"), claimed_by=claimed_by), (), lambda queue, subject: is_named)
    assert verdict.effect is (Effect.FAILED if may else Effect.NOTHING)
    assert may or verdict.command == "tobekilled"


@pytest.mark.parametrize(("vo", "may"), [("atlas", True), ("cms", False), ("", False)])
def test_production_of_a_vo_is_trusted_with_the_jobs_of_that_vo_alone(vo: str, may: bool) -> None:
    report = Report(1, "failed", None, subject="prodteam", trusted_for=frozenset({"atlas"}))
    assert (judge(report, replace(row("running"), vo=vo)).effect is Effect.FAILED) is may


def test_a_command_is_passed_on_and_none_is_the_word_null() -> None:
    assert judge(Report(1, "running"), row("running", command="debug")).command == "debug"
    assert judge(Report(1, "running"), row("running")).command == "NULL"


@pytest.mark.parametrize(
    ("stored", "source", "code"),
    [
        ({"trans_exit_code": 2, "pilot_error_code": 1367}, "payload", 2),
        ({"pilot_error_code": 1150}, "payload", 1150),
        ({"pilot_error_code": 1212, "trans_exit_code": 137}, "payload", 1212),
        ({"pilot_error_code": 1144}, "pilot", 1144),
        # as published pilots report a job that they were told to kill, and one that the batch system ended
        ({"pilot_error_code": 1144, "trans_exit_code": 240, "exe_error_code": 0}, "pilot", 1144),
        ({"pilot_error_code": 1201, "trans_exit_code": 143}, "pilot", 1201),
        ({"pilot_error_code": 1201}, "pilot", 1201),
        ({"pilot_error_code": 1151}, "pilot", 1151),
    ],
)
def test_blame(stored: dict[str, Any], source: str, code: int) -> None:
    found = blame(stored)
    assert (found.source, found.code) == (source, code) and found.dialog


OUT, LOG, OPTIONAL = ExpectedOutput("out"), ExpectedOutput("log", is_log=True), ExpectedOutput("opt", False, True)


@pytest.mark.parametrize(
    ("state", "listed", "effect", "missing"),
    [
        ("finished", ("out", "log"), Effect.HOLDING, None),
        ("finished", ("out", "log", "opt", "unheard of"), Effect.HOLDING, None),
        ("finished", ("log",), Effect.HOLDING, "out"),  # failed; its log is registered first
        ("finished", ("out",), Effect.FAILED, "log"),
        ("finished", (), Effect.FAILED, "out, log"),
        ("failed", ("log",), Effect.HOLDING, ""),
        ("failed", (), Effect.FAILED, ""),
        ("failed", ("out",), Effect.FAILED, ""),
    ],
)
def test_success_needs_every_expected_output_in_the_list_and_no_list_is_never_all(
    state: str, listed: tuple[str, ...], effect: Effect, missing: str | None
) -> None:
    report = Report(1, state, 1, {"outputs": {lfn: {} for lfn in listed}})
    found, blamed = ending(report, [OUT, LOG, OPTIONAL])
    assert found is effect and (blamed is None) == (missing is None)
    if missing:
        assert blamed is not None and (blamed.source, blamed.code) == ("pilot", MISSING_OUTPUT)
        assert blamed.dialog.endswith(f"missing in the pilot's list: {missing}")


BY_EXPRESSION = ExpectedOutput(r"regex|a.*\.root|000007")


@pytest.mark.parametrize(
    ("listed", "code", "said"),
    [
        (("a1.root", "log"), None, ""),
        (("a1.root", "xa2.root.1", "log", "c.txt"), None, ""),  # found anywhere in the name, as in the field
        (("log",), 9001, r"missing in the pilot's list: regex|a.*\.root"),
        (("b.root", "a.txt", "log"), 9001, r"missing in the pilot's list: regex|a.*\.root"),
        (("out.a.root", "log"), 9001, r"missing in the pilot's list: regex|a.*\.root"),  # an output by itself
        ((r"regex|a.*\.root", "log"), 9003, r"have names that cannot be: regex|a.*\.root; names of files: letters"),
        (("a b.root", "a1.root", "log"), 9003, "have names that cannot be: a b.root; names of files: letters, digits"),
        (("a" + "x" * 250 + ".root", "log"), 9003, "at most 250 characters"),
        ((*(f"a{n}.root" for n in range(1000)), "log"), None, ""),
        ((*(f"a{n}.root" for n in range(1001)), "log"), 9003, r"1001 files of the job match regex|a.*\.root; allowed"),
    ],
)
def test_an_output_by_expression_is_each_file_of_the_list_in_whose_name_it_is_found(
    listed: tuple[str, ...], code: int | None, said: str
) -> None:
    report = Report(1, "finished", 1, {"outputs": {lfn: {} for lfn in listed}})
    named = [ExpectedOutput("out.a.root")] if "out.a.root" in listed else []
    found, blamed = ending(report, [BY_EXPRESSION, *named, LOG])
    assert found is Effect.HOLDING
    assert (None if blamed is None else blamed.code) == code
    if blamed is not None:
        assert said in blamed.dialog
        assert blamed.source == ("payload" if code == 9003 else "pilot")


def test_a_file_belongs_to_the_first_expression_that_is_found_in_its_name() -> None:
    assert files_by_expression(["regex|root|000001", "regex|a|000001", "b.root"], ["a.root", "a.txt", "b.root"]) == {
        "regex|root|000001": ["a.root"],
        "regex|a|000001": ["a.txt"],
    }


def test_nothing_matches_an_expression_and_that_is_allowed() -> None:
    report = Report(1, "finished", 1, {"outputs": {"log": {}}})
    assert ending(report, [replace(BY_EXPRESSION, may_be_absent=True), LOG]) == (Effect.HOLDING, None)


def test_a_file_that_matches_an_expression_and_whose_size_cannot_be_is_made_again() -> None:
    stored = {"outputs": {"a1.root": {}, "log": {}}, "unusable_outputs": {"a2.root": "fsize -1"}}
    _, blamed = ending(Report(1, "finished", 1, stored), [BY_EXPRESSION, LOG])
    assert blamed is not None and (blamed.source, blamed.code) == ("pilot", 9002)
    assert "a2.root (fsize -1)" in blamed.dialog


def test_a_job_without_expected_outputs_succeeds_without_a_list() -> None:
    assert ending(Report(1, "finished"), []) == (Effect.HOLDING, None)


def test_of_many_missing_outputs_the_first_are_named_and_the_rest_counted() -> None:
    _, blamed = ending(Report(1, "finished"), [ExpectedOutput(f"f{number}") for number in range(9)])
    assert blamed is not None and blamed.dialog.endswith("f0, f1, f2 and 6 more")


def need(job_id: int, *, here: bool) -> InputNeed:
    return InputNeed(job_id, 5, 1, 10, here, "FAR_DISK")


def at(job_id: int, status: str = "running", destination: str | None = "DISK", *, analysis: bool = False) -> JobAtQueue:
    return JobAtQueue(job_id, 1, status, analysis, destination)


def test_missing_input_is_moved_and_everything_else_decided_by_the_task() -> None:
    jobs = [
        at(1),
        at(2),
        at(3, "paused"),
        at(4, "aborting"),
        at(5, destination=None),
        at(6, "paused"),
        at(7, analysis=True),
    ]
    needs = [need(1, here=True), need(2, here=False), need(5, here=False), need(6, here=False), need(7, here=False)]
    plan = plan_inputs(jobs, needs)
    assert (plan.activate, plan.throttle, plan.cancel, plan.assign) == ((1, 5), (3,), (4,), (2, 6, 7))
    assert [(one.job.job_id, one.activity) for one in plan.transfers] == [
        (2, "Production Input"), (6, "Production Input"), (7, "Analysis Input"),
    ]  # fmt: skip


def holding(**changes: Any) -> HoldingJob:
    values: dict[str, Any] = {
        "job_id": 1, "task_id": 1, "job_type": "normal", "task_merges": False,
        "outputs": (HeldOutput(1, 9, "A_DISK", "N_DISK"),),
    }  # fmt: skip
    return HoldingJob(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({}, "transfer"), ({"outputs": ()}, "finish"), ({"outputs": (HeldOutput(1, 9, "A_DISK", None),)}, "finish"),
        ({"outputs": (HeldOutput(1, 9, "A_DISK", None), HeldOutput(2, 9, "A_DISK", "N_DISK"))}, "transfer"),
        ({"task_merges": True}, "merge"), ({"task_merges": True, "job_type": "scout"}, "merge"),
        ({"task_merges": True, "job_type": "merge"}, "transfer"),
        ({"task_merges": True, "job_type": "build", "outputs": ()}, "finish"),
    ],
)  # fmt: skip
def test_where_outputs_go(changes: dict[str, Any], where: str) -> None:
    plan = plan_outputs([holding(**changes)])
    assert len(getattr(plan, where)) == 1 and len(plan.merge) + len(plan.transfer) + len(plan.finish) == 1


def test_files_of_a_job_that_go_the_same_way_are_one_movement() -> None:
    files = (
        HeldOutput(1, 1, "A_DISK", "N_DISK"), HeldOutput(2, 10, "A_DISK", "T_TAPE"),
        HeldOutput(3, 100, "A_DISK", "N_DISK"), HeldOutput(4, 1000, "A_DISK", None),
        HeldOutput(5, 10_000, "A_SCRATCH", "N_DISK"),
    )  # fmt: skip
    plan = plan_outputs([holding(outputs=files)])
    assert [(one.source, one.destination, one.dataset_ids, one.n_files, one.n_bytes) for one in plan.transfers] == [
        ("A_DISK", "N_DISK", (1, 3), 2, 101), ("A_DISK", "T_TAPE", (2,), 1, 10),
        ("A_SCRATCH", "N_DISK", (5,), 1, 10_000),
    ]  # fmt: skip


def test_every_step_of_every_command_is_allowed_by_the_graph() -> None:
    for command in ("kill", "finish", "pause", "give_back", "resume", "reassign"):
        for soft in (True, False):
            for step in steps_of(command, soft=soft):
                assert set(step.sources) <= set(JOB.sources(step.target, Owner.JOB_DISPATCH)), (command, soft)
    assert steps_of("avalanche", soft=False) == () and set(steps_of("kill", soft=True)[0].sources) == set(LIVE)


def test_names_of_the_older_interface_and_numbers_as_text_are_understood() -> None:
    report = read_report(
        {"jobId": "7", "state": "finished", "attemptNr": "2", "maxPSS": "10.0", "cpuConsumptionTime": "1.5",
         "xml": '{"a": {"fsize": "3"}}', "metaData": "not json", "nEvents": "", "pilotErrorCode": "NULL",
         "startTime": 1.7e9, "unheardOf": 1},
    )  # fmt: skip
    assert (report.job_id, report.attempt_number, report.job_status) == (7, 2, "finished")
    stored = JobReport.from_stored(report.stored)
    assert stored.max_pss_kb == 10 and stored.cpu_time_s == 1.5 and stored.n_events is None
    assert stored.outputs[0].size_bytes == 3 and stored.meta_data == {"text": "not json"}


def test_a_heartbeat_stores_nothing() -> None:
    assert read_report({"job_id": 1, "job_status": "running", "max_pss": 5}).stored == {}


async def test_a_gzip_bomb_is_refused_before_it_is_unpacked() -> None:
    import gzip

    async def read(body: bytes) -> object:
        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        return await fields_of(Request({"type": "http", "headers": []}, receive), REPORT)

    with pytest.raises(BadBody, match="are not allowed"):
        await read(gzip.compress(b"{" + b" " * 40_000_000 + b"}"))
    with pytest.raises(BadBody, match="ends too early"):
        await read(gzip.compress(b'{"a": 1}')[:-6])
    assert await read(gzip.compress(b'{"a": 1}')) == {"a": 1}


@pytest.mark.parametrize(("is_urgent", "activity"), [(False, "Production Output"), (True, "Express")])
def test_outputs_of_urgent_work_are_moved_by_the_express_activity(is_urgent: bool, activity: str) -> None:
    assert [one.job.activity for one in plan_outputs([holding(is_urgent=is_urgent)]).transfers] == [activity]
