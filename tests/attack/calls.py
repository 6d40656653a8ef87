"""How each route is called about something of a victim. A route that is neither here nor in NOT_CALLED fails the run.

A new route: say what it takes (`asks`: query of a GET, body of a POST), whether it `changes` something, and where it
answers with success although it did nothing for the caller, why (`silent`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.auth.access import Whose
from tests.attack.answers import Answer
from tests.attack.people import Person
from tests.attack.stage import QUEUE, SITE, Victim, archive, checksum, upload

Given = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One way to call a route; `path` fills in what stands in it.

    `whose`: to whom belongs what it is about, where that is not the victim's. `silent`: why an answer is a success
    where the rule says no. `fenced`: what else decides, so that whom the rule allows may be refused. `pilot_may`: why
    the pilot that took the job may, too.
    """

    asks: Callable[[Victim], Given]
    changes: bool = False
    path: Callable[[Victim], Given] | None = None
    whose: Whose | None = None
    silent: str = ""
    fenced: str = ""
    pilot_may: str = ""
    form: Callable[[Person, Victim], Answer] | None = None

    def says(self, victim: Victim) -> str:
        """What the caller says of the victim; it may come back."""
        return f"{self.asks(victim)} {self.path(victim) if self.path else ''} {victim.sandbox if self.form else ''}"

    def made(self, person: Person, method: str, path: str, victim: Victim) -> Answer:
        """The answer to somebody who calls it about something of the victim."""
        if self.form is not None:
            return self.form(person, victim)
        for name, value in (self.path(victim) if self.path else {}).items():
            path = path.replace("{" + name + "}", str(value))
        return person.get(path, **self.asks(victim)) if method == "GET" else person.post(path, self.asks(victim))


def _task(victim: Victim) -> Given:
    return {"task_id": victim.task_id}


def _spare(victim: Victim) -> Given:
    return {"task_id": victim.spare_task_id}


def _job(victim: Victim) -> Given:
    return {"job_id": victim.jobs["running"]}


def _jobs(victim: Victim) -> Given:
    return {"job_ids": [victim.jobs["running"], victim.jobs["failed"], victim.jobs["waiting"]]}


def _series(victim: Victim) -> Given:
    return {"periodic_id": victim.periodic_id}


def _nothing(victim: Victim) -> Given:
    return {}


def _filtered(victim: Victim) -> Given:
    """A search for the victim by name."""
    return {"user_name": victim.whose.owner}


def _command(**more: Any) -> Call:
    return Call(lambda victim: {"task_id": victim.spare_task_id, **more}, changes=True)


def _by_operator(**body: Any) -> Call:
    return Call(lambda victim: body, changes=True)


def _report(victim: Victim) -> Given:
    return {"job_id": victim.jobs["running"], "job_status": "failed", "pilot_error_code": 1, "attempt_nr": 0}


def _legacy_report(victim: Victim) -> Given:
    return {"jobId": victim.jobs["running"], "state": "failed", "pilotErrorCode": 1, "attemptNr": 0}


def _submission(victim: Victim) -> Given:
    """A task of the victim's VO with the victim's input."""
    parameters = {
        "taskName": f"user.{victim.whose.owner}.$JEDITASKID.taken", "userName": victim.whose.owner, "vo": victim.vo,
        "prodSourceLabel": "user", "taskType": "anal", "processingType": "panda-client-jedi-run", "noInput": True,
        "nEvents": 1, "nEventsPerJob": 1, "architecture": "", "transPath": "http://127.0.0.1/trf", "coreCount": 1,
        "ramCount": 1000, "cpuTime": 1, "cpuTimeUnit": "HS06sPerEvent", "site": QUEUE,
        "jobParameters": [{"type": "constant", "value": "x"}, {
            "type": "template", "param_type": "output", "value": "user.x.$JEDITASKID.${SN}.root",
            "dataset": f"user.{victim.whose.owner}.$JEDITASKID.taken.out"}],
        "log": {"type": "template", "param_type": "log", "value": "user.x.$JEDITASKID.${SN}.log.tgz",
                "dataset": f"user.{victim.whose.owner}.$JEDITASKID.taken.log"},
    }  # fmt: skip
    return {"task_parameters": parameters}


def _import(victim: Victim) -> Given:
    one = {"scope": f"user.{victim.whose.owner}", "name": victim.dataset, "state": "frozen", "files": [
        {"lfn": "planted.root", "size_bytes": 1}]}  # fmt: skip
    one["scope"] = victim.dataset.partition(".")[0]
    return {"format": "orrery-catalogue/1", "datasets": [one]}


def _upload(person: Person, victim: Victim) -> Answer:
    """A file by the name of the victim's."""
    answer: Answer = upload(person, victim.sandbox, archive(f"planted by {person.label}"))
    return answer


NOBODYS = Whose()
_OWN_ONLY = "it is about what the caller keeps"
_EACH_ITS_OWN = "each of many has its own answer"
_ITS_JOB = "it looks at the job that it runs"
_CLAIM = "the claim of the job decides"

CALLS: Mapping[str, Call] = {
    # reading tasks
    "GET /api/v1/task/get_status": Call(_task),
    "GET /api/v1/task/get_commands": Call(_task),
    "GET /api/v1/task/preview_command": Call(
        lambda victim: {"command": "kill", "task_ids": victim.task_id},
        silent="a task that is not told is one that is not found",
    ),
    "GET /api/v1/task/get_details": Call(lambda victim: {**_task(victim), "include_parameters": True}),
    "GET /api/v1/task/get_detailed_info": Call(_task),
    "GET /api/v1/task/get_parent_detailed_info": Call(_task, fenced="the task has no parent"),
    "GET /api/v1/task/get_task_parameters": Call(_task),
    "GET /api/v1/task/get_job_ids": Call(_task),
    "GET /api/v1/task/get_job_descriptions": Call(_task),
    "GET /api/v1/task/get_datasets_and_files": Call(_task),
    "GET /api/v1/task/get_tasks_modified_since": Call(lambda victim: {"dn": victim.whose.owner, "full": True}),
    "GET /api/v1/task/get_tasks_detailed_info_since": Call(
        lambda victim: {"filters": f'{{"userName": "{victim.whose.owner}"}}'}
    ),
    "GET /api/v1/task/list": Call(_filtered),
    "GET /api/v1/task/task_files": Call(_task),
    "GET /api/v1/explain/task/{task_id}": Call(lambda victim: {"all": True}, path=_task),
    "GET /api/v1/explain/task": Call(_task),
    "GET /api/v1/explain/difference": Call(
        lambda victim: {**_task(victim), "first": victim.decision_id, "second": victim.decision_id}
    ),
    "GET /api/v1/explain/job/{job_id}": Call(lambda victim: {"all": True}, path=_job),
    "GET /api/v1/explain/job": Call(_job),
    "GET /api/v1/explain/site": Call(lambda victim: {"site": SITE}),
    "GET /api/v1/explain/queue": Call(lambda victim: {"queue": QUEUE}),
    "GET /api/v1/periodic_task/list": Call(_filtered),
    # reading jobs
    "GET /api/v1/job/get_status": Call(_jobs),
    "GET /api/v1/job/list": Call(_task),
    "GET /api/v1/job/get_description": Call(_jobs),
    "GET /api/v1/job/get_description_incl_archive": Call(_jobs),
    "POST /api/v1/job/get_description": Call(_jobs),
    "POST /api/v1/job/get_description_incl_archive": Call(_jobs),
    "GET /api/v1/job/get_metadata_for_analysis_jobs": Call(_task),
    "GET /api/v1/job/get_stdout": Call(_job),
    "GET /api/v1/job/task_queues": Call(_nothing),
    "GET /api/v1/statistics/active_job_stats_by_site": Call(_nothing),
    "GET /api/v1/event/get_event_range_statuses": Call(
        lambda victim: {"job_task_ids": json.dumps([{**_task(victim), **_job(victim)}])}
    ),
    "GET /api/v1/event/get_available_event_range_count": Call(
        lambda victim: {**_job(victim), **_task(victim)}, fenced="it has no events"
    ),
    "GET|POST /api/v1/pilot/get_job_status": Call(_jobs),
    "GET|POST /server/panda/getStatus": Call(lambda victim: {"ids": victim.jobs["running"]}),
    # reading the rest
    "GET /api/v1/catalogue/datasets": Call(_nothing),
    "GET /api/v1/catalogue/dataset": Call(lambda victim: {"name": victim.dataset, "include_files": True}),
    "GET /api/v1/catalogue/show": Call(lambda victim: {"name": victim.dataset}),
    "GET /api/v1/catalogue/scopes": Call(_nothing),
    "GET /api/v1/catalogue/refused": Call(_nothing),
    "GET /api/v1/catalogue/requests": Call(lambda victim: {"vo": victim.vo}),
    "GET /api/v1/config/list": Call(_nothing),
    "GET /api/v1/config/describe": Call(lambda victim: {"component": "watchdog", "key": "SWEEP_AGE_S"}),
    "GET /api/v1/config/get": Call(lambda victim: {"component": "watchdog", "key": "SWEEP_AGE_S"}),
    "GET /api/v1/token/revocations": Call(_nothing),
    "GET /api/v1/group/list": Call(_nothing),
    "GET /api/v1/user/list": Call(_nothing),
    "GET /api/v1/work_queue/list": Call(_nothing),
    "GET /api/v1/system/get_attributes": Call(_nothing),
    "GET /api/v1/workflow/get_workflow_details": Call(lambda victim: {"workflow_id": 1}, fenced="not carried out"),
    "GET /api/v1/retry_rule/list": Call(_nothing),
    "GET /api/v1/timeout/list": Call(_nothing),
    "GET /api/v1/used_up_files/list": Call(_task),
    "GET /api/v1/grid/queues": Call(_nothing),
    "GET /api/v1/grid/sites": Call(_nothing),
    "GET /api/v1/grid/status": Call(_nothing),
    "GET /api/v1/grid/world": Call(_nothing),
    "GET /api/v1/grid/names": Call(_nothing),
    "GET /api/v1/task/estimate": Call(_nothing),
    "GET /api/v1/task/longest": Call(
        lambda victim: {"user_name": "ada", "status": "pending"}, silent="of others nothing is told"
    ),
    "GET /api/v1/task/names": Call(lambda victim: {"field": "user_name"}, silent="names of whose tasks are told alone"),
    "GET /api/v1/grid/what_if": Call(_task),
    "GET|POST /server/panda/getResourceTypes": Call(_nothing),
    "GET|POST /server/panda/get_user_secrets": Call(_nothing, silent=_OWN_ONLY),
    "GET /api/v1/creds/get_user_secrets": Call(_nothing, silent=_OWN_ONLY),
    "GET /api/v1/creds/list_user_secrets": Call(_nothing, silent=_OWN_ONLY),
    "GET /api/v1/check": Call(_nothing),
    "GET /api/v1/bus/parked": Call(_nothing),
    "GET /api/v1/audit": Call(_nothing),
    "GET /api/v1/condition": Call(_nothing),
    "GET /api/v1/retention": Call(_nothing),
    "GET /api/v1/watchdog/list": Call(_nothing),
    "POST /api/v1/watchdog/run": Call(lambda victim: {"action": "sweep", "dry_run": True}),
    "GET /api/v1/share/list": Call(_nothing),
    "GET /api/v1/share/history": Call(lambda victim: {"gshare": "MC"}),
    "GET /api/v1/share/explain": Call(_nothing),
    "POST /server/panda/getProxy": Call(_nothing, fenced="there are none here"),
    "POST /server/panda/getKeyPair": Call(
        lambda victim: {"publicKeyName": "a.pub", "privateKeyName": "a.key"}, fenced="there are none here"
    ),
    # commands on tasks: what may come again first, what ends it last
    "POST /api/v1/task/change_priority": _command(priority=900),
    "POST /api/v1/task/change_share": _command(share="MC"),
    "POST /api/v1/task/change_split_rule": _command(attribute_name="nFilesPerJob", attribute_value=2),
    "POST /api/v1/task/change_attribute": _command(attribute_name="ramCount", value=3000),
    "POST /api/v1/task/enable_jumbo_jobs": _command(jumbo_jobs_total=0),
    "POST /api/v1/task/enable_job_cloning": _command(),
    "POST /api/v1/task/disable_job_cloning": _command(),
    "POST /api/v1/task/increase_attempts": _command(increase=1),
    "POST /api/v1/task/pause": _command(),
    "POST /api/v1/task/resume": _command(),
    "POST /api/v1/task/release": _command(),
    "POST /api/v1/task/avalanche": _command(),
    "POST /api/v1/task/reassign": _command(site=QUEUE),
    "POST /api/v1/task/retry": _command(),
    "POST /api/v1/task/reload_input": _command(),
    "POST /api/v1/task/reactivate": _command(),
    "POST /api/v1/task/recover_lost_files": _command(),
    "POST /api/v1/file_server/upload_file_recovery_request": Call(_spare, changes=True),
    "POST /api/v1/task/finish": _command(soft=True),
    "POST /api/v1/task/kill": _command(),
    "POST /api/v1/task/submit": Call(_submission, changes=True),
    "POST /api/v1/periodic_task/pause": Call(_series, changes=True),
    "POST /api/v1/periodic_task/resume": Call(_series, changes=True),
    "POST /api/v1/periodic_task/end": Call(_series, changes=True),
    "POST /api/v1/periodic_task/submit": Call(
        lambda victim: {**_submission(victim), "period_s": 86_400, "starts_at": "2100-01-01T00:00:00Z"}, changes=True
    ),
    "POST /api/v1/workflow/submit_workflow_raw_request": Call(_nothing, changes=True),
    # commands on jobs
    "POST /api/v1/job/change_priority": Call(
        lambda victim: {"job_id": victim.jobs["waiting"], "priority": 999}, changes=True
    ),
    "POST /api/v1/job/set_debug_mode": Call(
        lambda victim: {**_job(victim), "mode": True}, changes=True, pilot_may=_ITS_JOB
    ),
    "POST /server/panda/setDebugMode": Call(
        lambda victim: {"pandaID": victim.jobs["running"], "modeOn": True}, changes=True, pilot_may=_ITS_JOB
    ),
    "POST /api/v1/job/set_command": Call(
        lambda victim: {**_job(victim), "command": "ls"}, changes=True, fenced="a right, by what is ordered",
        pilot_may=_ITS_JOB,
    ),
    "POST /api/v1/job/kill": Call(
        lambda victim: {"job_ids": [victim.jobs["waiting"]]}, changes=True, silent=_EACH_ITS_OWN
    ),
    "POST /api/v1/job/submit": Call(lambda victim: {"jobs": []}, changes=True, fenced="not carried out"),
    # what people keep
    "POST /api/v1/creds/set_user_secrets": Call(
        lambda victim: {"key": victim.secret_key, "value": "overwritten"}, changes=True, silent=_OWN_ONLY
    ),
    "POST /api/v1/file_server/validate_cache_file": Call(
        lambda victim: {"file_size": len(victim.sandbox_content), "checksum": checksum(victim.sandbox_content)},
        silent=_OWN_ONLY,
    ),
    "POST /api/v1/file_server/upload_cache_file": Call(
        _nothing, changes=True, form=_upload, silent="names are each owner's: the file is the caller's own"
    ),
    # catalogue
    "POST /api/v1/catalogue/import": Call(_import, changes=True),
    "POST /api/v1/catalogue/readable": Call(
        lambda victim: {"names": [victim.dataset], "by_all": True}, changes=True
    ),
    "POST /api/v1/catalogue/messages": Call(
        lambda victim: {"event_type": "rule_ok", "payload": {"rule_id": "a" * 32}}, changes=True, whose=NOBODYS
    ),
    # pilots
    "POST /api/v1/pilot/acquire_jobs": Call(
        lambda victim: {"site_name": QUEUE, "task_id": victim.task_id, "memory": 64_000, "disk_space": 500_000},
        changes=True, silent="there is no job for it", fenced="jobs that wait and fit",
    ),
    "GET|POST /server/panda/getJob": Call(
        lambda victim: {"siteName": QUEUE, "taskID": victim.task_id, "mem": 64_000, "diskSpace": 500_000},
        changes=True, fenced="jobs that wait and fit",
    ),
    "POST /api/v1/pilot/update_job": Call(_report, changes=True, fenced=_CLAIM),
    "POST /api/v1/pilot/update_jobs_bulk": Call(
        lambda victim: {"job_list": [_report(victim)]}, changes=True, fenced=_CLAIM
    ),
    "GET|POST /server/panda/updateJob": Call(_legacy_report, changes=True, fenced=_CLAIM),
    "POST /api/v1/pilot/update_worker_status": Call(
        lambda victim: {"worker_id": 1, "harvester_id": f"harvester-{victim.vo}", "site_name": QUEUE,
                        "status": "finished"},
        changes=True, silent="the worker of that number of the caller's VO", fenced="its pilot's",
    ),
    "GET|POST /server/panda/updateWorkerPilotStatus": Call(
        lambda victim: {"workerID": 1, "harvesterID": f"harvester-{victim.vo}", "site": QUEUE, "status": "finished"},
        changes=True, silent="the worker of that number of the caller's VO", fenced="its pilot's",
    ),
    "POST /api/v1/pilot/update_worker_node": Call(
        lambda victim: {"site": "CERN", "host_name": "node1", "cpu_model": "x"}, changes=True, whose=NOBODYS
    ),
    "POST /api/v1/pilot/update_worker_node_gpu": Call(
        lambda victim: {"site": "CERN", "host_name": "node1", "vendor": "x", "model": "y"}, changes=True, whose=NOBODYS
    ),
    "POST /server/panda/getEventRanges": Call(
        lambda victim: {"pandaID": victim.jobs["running"], "taskID": victim.task_id, "nRanges": 1},
        changes=True, fenced=_CLAIM, silent="no ranges of it are given",
    ),
    "POST /server/panda/updateEventRanges": Call(
        lambda victim: {"eventRanges": f'[{{"eventRangeID": "{victim.task_id}-1-1-1-1", "eventStatus": "finished"}}]'},
        changes=True, fenced=_CLAIM, silent=_EACH_ITS_OWN,
    ),
    "POST /api/v1/event/acquire_event_ranges": Call(
        lambda victim: {**_job(victim), **_task(victim), "n_ranges": 1}, changes=True, fenced=_CLAIM,
        silent="no ranges of it are given",
    ),
    "POST /api/v1/event/update_event_ranges": Call(
        lambda victim: {"event_ranges": [{"eventRangeID": f"{victim.task_id}-1-1-1-1", "eventStatus": "finished"}]},
        changes=True, fenced=_CLAIM, silent=_EACH_ITS_OWN,
    ),
    "POST /api/v1/event/update_single_event_range": Call(
        lambda victim: {"event_range_id": f"{victim.task_id}-1-1-1-1", "event_range_status": "finished"},
        changes=True, fenced=_CLAIM,
    ),
    "POST /api/v1/harvester/update_workers": Call(
        lambda victim: {"harvester_id": "h", "workers": [
            {"workerID": 9, "computingSite": QUEUE, "status": "running"}]},
        whose=NOBODYS, silent=_EACH_ITS_OWN, fenced="whom REPORTERS names", changes=True,
    ),
    "POST /api/v1/harvester/add_target_slots": Call(
        lambda victim: {"panda_queue": QUEUE, "slots": None}, whose=NOBODYS, changes=True,
        fenced="whom SLOT_SETTERS names",
    ),
    "POST /api/v1/site/advertise": Call(
        lambda victim: {"Site": "DE-TARDIS", "MaxJobs": 5}, whose=NOBODYS, changes=True, fenced="whom ADVERTISERS names"
    ),
    **{
        f"POST /server/panda/{name}": Call(_nothing, changes=True, fenced="not carried out", whose=NOBODYS)
        for name in (
            "relay_idds_command", "execute_idds_workflow_command", "put_workflow_request", "putEventPickingRequest",
        )
    },
    "POST /api/v1/used_up_files/deleted": Call(
        lambda victim: {**_task(victim), "files": ["taken.zip"]}, changes=True, fenced="it has no events"
    ),
    # operators
    "POST /api/v1/creds/rotate_key": _by_operator(),
    "POST /api/v1/catalogue/scope": _by_operator(scope="data99_taken", vo="cms"),
    "POST /api/v1/config/set": _by_operator(component="watchdog", key="SWEEP_AGE_S", value="61.5"),
    "POST /api/v1/config/unset": _by_operator(component="watchdog", key="SWEEP_AGE_S"),
    "POST /api/v1/group/load": _by_operator(groups=[{"name": "taken", "vo": "atlas"}]),
    "POST /api/v1/group/set": _by_operator(name="taken", vo="atlas"),
    "POST /api/v1/group/remove": _by_operator(name="taken", vo="atlas"),
    "POST /api/v1/user/load": _by_operator(users=[{"user_name": "ada", "quota": 5.0}]),
    "POST /api/v1/user/set": _by_operator(user_name="ada", quota=5.0),
    "POST /api/v1/user/remove": _by_operator(user_name="ada"),
    "POST /api/v1/work_queue/set": _by_operator(
        work_queue={"queue_id": 77, "name": "taken", "label": "user", "vo": "atlas", "criteria": "vo = 'none'"}
    ),
    "POST /api/v1/work_queue/remove": _by_operator(queue_id=77),
    "POST /api/v1/work_queue/load": _by_operator(work_queues=[]),
    "POST /api/v1/retry_rule/set": _by_operator(
        retry_rule={"rule_id": 77, "source": "pilotErrorCode", "action": "no_retry", "code": 424242}
    ),
    "POST /api/v1/retry_rule/remove": _by_operator(rule_id=77),
    "POST /api/v1/retry_rule/load": _by_operator(retry_rules=[]),
    "POST /api/v1/timeout/load": _by_operator(vo="atlas", rules=[]),
    "POST /api/v1/grid/cordon": _by_operator(queue="DE-TARDIS", reason="taken"),
    "POST /api/v1/grid/uncordon": _by_operator(queue="DE-TARDIS"),
    "POST /api/v1/grid/load": _by_operator(files={}),
    "POST /api/v1/bus/replay": _by_operator(parked_ids=[1]),
    "POST /api/v1/bus/drop": _by_operator(parked_ids=[1], reason="taken"),
    "POST /api/v1/share/load": _by_operator(shares=[], dry_run=True),
}  # fmt: skip

#: routes that the matrix does not call, and why
NOT_CALLED: Mapping[str, str] = {
    "POST /api/v1/token/revoke": "each call is for good; the attacks on tokens call it",
    "GET /api/v1/system/is_alive": "for anybody; it tells nothing",
    "GET /auth/{vo}_auth_config.json": "for anybody: where to log in; it tells what the operator's file says",
    "GET /cache/{name:sandbox}": "without a token; the attacks on archives call it",
    "GET /signed/{permission}/cache/{name:sandbox}": "it takes a permission in place of a token; likewise",
    "GET /cache/schedconfig/{file:str}": "queue data, for pilots before they have a token",
    "GET /cache/schedconfig.json": "the same for all queues",
    "GET /cache/ddmendpoints.json": "storages, likewise",
    "GET /server/panda/get_access_token": "it takes a key in place of a token; the attacks on tokens call it",
    "GET /api/v1/creds/get_access_token": "likewise",
}


def absent(victim: Victim) -> Victim:
    """The same where nothing is."""
    nothing = 987_654_321
    return Victim(
        victim.person, victim.production, victim.pilot, victim.whose, nothing, nothing, nothing, nothing,
        dict.fromkeys(victim.jobs, nothing), f"{victim.dataset[:-3]}xyz", "sources.nothing.tar.gz",
        victim.sandbox_content, "nothing",
    )  # fmt: skip
