"""PanDA's published client, unmodified: a session of prun, pbook and their library with the services."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from shared.auth import Authority
from tests.integration.published_client.conftest import WAITING, WORKING, LiveSystem
from tests.integration.published_client.person import Person, Said

pytestmark = pytest.mark.timeout(300)
DATASET = "data23_13p6TeV:data23_13p6TeV.periodC.physics_Main.PhysCont.DAOD_PHYSLITE.grp23_v01_p6697"
#: every option of a retry that leaves the input and the queue of a task as they are, and what pbook sends for it
OPTIONS_OF_RETRY = (
    "--nFilesPerJob", "300", "--nGBPerJob", "2", "--memory", "3000", "--maxCore", "16", "--no-loopingCheck",
    "--avoidVP", "--forceStaged", "--ignoreMissingInDS", "--excludedSite", "TRIUMF-LCG2",
)  # fmt: skip
SENT_BY_RETRY = {
    "nFilesPerJob": 300, "nMaxFilesPerJob": 300, "nGBPerJob": 2, "ramCount": 3000, "maxCoreCount": 16,
    "noLoopingCheck": True, "avoidVP": True, "forceStaged": True, "ignoreMissingInDS": True,
    "excludedSite": "TRIUMF-LCG2",
}  # fmt: skip


def prun(person: Person, name: str, *arguments: str, site: str = WAITING, n_jobs: int | None = 2) -> Said:
    """A task of the person's script without a build job."""
    work = ["--nJobs", str(n_jobs)] if n_jobs else []
    who = person.directory.name
    options = ["--outDS", f"user.{who}.{name}", "--exec", "sh run.sh", "--outputs", "out.txt", "--site", site]
    return person.run("prun", *options, "--noBuild", *work, *arguments)


def archive_of(parameters: dict[str, object]) -> str:
    """The name of the sandbox in a task's command line."""
    items = [one["value"] for one in parameters["jobParameters"]]  # type: ignore[attr-defined]
    return next(str(value)[3:] for value in items if str(value).startswith("-a "))


def archive_of_build(parameters: dict[str, Any]) -> str:
    return str(parameters["buildSpec"]["archiveName"])


@pytest.fixture(scope="module")
def finished(system: LiveSystem, pilots: None, ada: Person) -> int:
    """A task of ada's that pilots brought to its end."""
    task_id = prun(ada, "finished", site=WORKING).task_id
    system.wait_for(task_id, "done")
    return task_id


@pytest.fixture(scope="module")
def waiting(system: LiveSystem, ada: Person) -> int:
    """A task of ada's whose jobs wait for a pilot."""
    task_id = prun(ada, "waiting").task_id
    system.wait_until(task_id, lambda details: details["jobs"] == {"activated": 2})
    return task_id


def test_what_prun_does_not_say_is_filled_in_and_its_task_is_done(
    system: LiveSystem, ada: Person, finished: int
) -> None:
    details = system.get("task/get_details", task_id=finished, include_parameters=True)
    facts = ("task_type", "user_name", "task_priority", "current_priority", "gshare")
    assert [details[name] for name in facts] == ["anal", "ada", 1000, 1000, "User Analysis"]
    assert details["trans_path"].endswith("/trf/user/runGen-00-00-02")
    found = ada.run("pbook", "show", str(finished))
    assert found.code == 0 and "done" in found.text and "100%" in found.text and "user.ada.finished/" in found.text


def test_the_sandbox_comes_back_as_it_was_uploaded_and_is_not_uploaded_twice(
    system: LiveSystem, ada: Person, finished: int
) -> None:
    archive = archive_of(system.get("task/get_task_parameters", task_id=finished))
    assert ada.call("getFile", archive) == [0, True]
    content = gzip.decompress((ada.work_directory() / archive).read_bytes())
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.extractfile("run.sh").read() == b"echo done > out.txt\n"  # type: ignore[union-attr]
    (ada.work_directory() / archive).unlink()
    again = prun(ada, "again").task_id
    assert archive_of(system.get("task/get_task_parameters", task_id=again)) == archive
    other = system.person("bob", "atlas")
    (other.work_directory() / "run.sh").write_bytes((ada.work_directory() / "run.sh").read_bytes())
    theirs = prun(other, "first").task_id
    assert archive_of(system.get("task/get_task_parameters", task_id=theirs)) != archive


def test_a_pilot_is_told_a_source_url_that_opens_the_sandbox_of_its_job_and_no_other(
    system: LiveSystem, ada: Person
) -> None:
    site = "TRIUMF-LCG2"
    mine = prun(ada, "fetched", site=site).task_id
    archive = archive_of(system.get("task/get_task_parameters", task_id=mine))
    bob = system.person("bob", "atlas")
    theirs = archive_of(system.get("task/get_task_parameters", task_id=prun(bob, "fetched", site=WAITING).task_id))
    system.wait_until(mine, lambda details: details["jobs"].get("activated", 0) > 0)
    pilot = Authority.from_file(Path(system.environment["ORRERY_TOKEN_KEY_FILE"])).issue("pilot-1", ["pilot"])
    headers = {"Authorization": f"Bearer {pilot}"}
    asked = {"site_name": site, "prod_source_label": "user"}
    job = system.http.post("/api/v1/pilot/acquire_jobs", json=asked, headers=headers).json()["data"]["jobs"][0]
    found = re.search(r"--sourceURL (\S+) .*-a (\S+)", job["jobPars"])
    assert found is not None and found[2] == archive and job["taskID"] == mine
    # as PanDA's scripts do (panda-wnscript, get_file_via_http): without a token
    with urllib.request.urlopen(f"{found[1]}/cache/{archive}") as answer:
        content = answer.read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.extractfile("run.sh").read() == b"echo done > out.txt\n"  # type: ignore[union-attr]
    for wrong in (f"{found[1]}/cache/{theirs}", f"{system.address}/cache/{archive}"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(wrong)


def test_jobs_are_described_with_every_attribute_that_the_client_has(ada: Person, finished: int) -> None:
    code, job_ids = ada.call("getPandaIDsWithTaskID", finished)
    assert code == 0 and len(job_ids) >= 2
    for function in ("getJobStatus", "getFullJobStatus"):
        code, jobs = ada.call(function, [*job_ids, 4711])
        assert code == 0 and [one and one["PandaID"] for one in jobs] == [*job_ids, None]
        ended = [one for one in jobs if one and one["jobStatus"] == "finished"]
        assert len(ended) == 2
        for one in ended:
            assert (one["jediTaskID"], one["computingSite"], one["VO"]) == (finished, WORKING, "atlas")
            assert one["jobParameters"].startswith('-j "" --sourceURL http://127.0.0.1:')
            assert {file["type"]: file["status"] for file in one["Files"]} == {"output": "ready", "log": "ready"}
            assert all(file["checksum"].startswith("ad:") for file in one["Files"])


def test_the_metadata_of_the_payloads_are_written_to_a_file(ada: Person, finished: int) -> None:
    said = ada.run("pbook", "get_user_job_metadata", str(finished), "metadata.json")
    found = json.loads((ada.work_directory() / "metadata.json").read_text())
    assert said.code == 0 and len(found) == 2
    assert all(one["metadata"]["exitCode"] == 0 for one in found)


def test_sources_are_built_once_at_a_site_before_the_other_jobs_run(
    system: LiveSystem, pilots: None, ada: Person
) -> None:
    options = ["--outDS", "user.ada.built", "--exec", "sh run.sh", "--outputs", "out.txt", "--site", WORKING]
    task_id = ada.run("prun", *options, "--nJobs", "2", "--bexec", "make", "--mergeOutput").task_id
    assert archive_of_build(system.get("task/get_task_parameters", task_id=task_id)).startswith("sources.")
    system.wait_for(task_id, "done")
    _, jobs = ada.call("getFullJobStatus", ada.call("getPandaIDsWithTaskID", task_id)[1])
    finished = [one for one in jobs if one["jobStatus"] == "finished"]
    builds = [one for one in finished if one["transformation"].endswith("/buildGen-00-00-01")]
    [library] = [file["lfn"] for one in builds for file in one["Files"] if file["lfn"].endswith(".lib.tgz")]
    assert '--bexec "make"' in builds[0]["jobParameters"] and builds[0]["currentPriority"] == 2000
    others = [one for one in finished if one not in builds]
    assert len(others) >= 3 and all(f"-l {library} " in one["jobParameters"] for one in others)
    ended, begun = max(one["endTime"] for one in builds), min(one["startTime"] for one in others)
    assert ended <= begun


def test_tasks_are_killed_retried_and_finished(system: LiveSystem, ada: Person) -> None:
    task_id = prun(ada, "commanded").task_id
    system.wait_until(task_id, lambda details: bool(details["jobs"]))
    assert ada.run("pbook", "kill", str(task_id)).code == 0
    system.wait_for(task_id, "aborted")
    refused = ada.run("pbook", "kill", str(task_id))
    assert "Failed to kill" in refused.text and "kill is refused for a task that is aborted" in refused.text
    assert ada.run("pbook", "retry", str(task_id)).code == 0
    system.wait_for(task_id, "ready", "scouting", "running")
    assert ada.run("pbook", "kill", str(task_id)).code == 0
    system.wait_for(task_id, "aborted")
    changed = ada.run("pbook", "retry", str(task_id), *OPTIONS_OF_RETRY)
    assert changed.code == 0 and "Failed to retry" not in changed.text, changed.text
    kept = system.get("task/get_task_parameters", task_id=task_id)
    assert {name: kept[name] for name in SENT_BY_RETRY} == SENT_BY_RETRY
    system.wait_until(task_id, lambda details: details["status"] in ("scouting", "running"))
    assert ada.run("pbook", "finish", str(task_id)).code == 0
    system.wait_for(task_id, "failed", "finished", "aborted", "exhausted", "broken", "done")


def test_jobs_are_killed_one_by_one(ada: Person, system: LiveSystem) -> None:
    task_id = prun(ada, "single").task_id
    system.wait_until(task_id, lambda details: details["jobs"] == {"activated": 2})
    _, job_ids = ada.call("getPandaIDsWithTaskID", task_id)
    assert ada.call("killJobs", [job_ids[0]]) == [0, [True]]
    assert ada.call("killJobs", [job_ids[0], 4711]) == [0, [False, False]], "a list, although nothing was killed"


def test_debug_mode_is_for_the_owner(ada: Person, system: LiveSystem, waiting: int) -> None:
    _, job_ids = ada.call("getPandaIDsWithTaskID", waiting)
    said = ada.run("pbook", "debug", str(job_ids[0]), "True")
    assert said.code == 0 and f"job {job_ids[0]}: its pilot is told: debug" in said.text
    assert system.get("job/get_status", job_ids=job_ids[0])[0]["command"] == "debug"
    other = system.person("bob", "atlas")
    assert "Failed to set debug mode" in other.run("pbook", "debug", str(job_ids[0]), "True").text


def test_a_task_of_somebody_else_is_not_commanded(system: LiveSystem, waiting: int) -> None:
    bob = system.person("bob", "atlas")
    assert bob.call("killTask", waiting) == [0, [False, f"task {waiting} is not of bob"]]
    assert system.get("task/get_status", task_id=waiting) != "aborted"


def test_lost_outputs_are_asked_for(system: LiveSystem, ada: Person, finished: int, waiting: int) -> None:
    said = ada.run("pbook", "recover_lost_files", str(finished))
    assert said.code == 0 and f"task {finished}: no output is lost" in said.text, said.text
    assert ada.call("send_file_recovery_request", finished, True) == [0, [True, f"task {finished}: no output is lost"]]
    bob = system.person("bob", "atlas")
    code, (is_accepted, text) = bob.call("send_file_recovery_request", finished)
    assert (code, is_accepted, text) == (0, False, f"task {finished} is not of bob")


def test_secrets_are_kept_listed_and_forgotten(ada: Person) -> None:
    for key, value in (("LOGIN", "one"), ("KEY", "two"), ("MORE", "three")):
        assert "Secret set successfully" in ada.run("pbook", "set_secret", key, value).text
    assert ada.call("get_user_secrets") == [0, [True, {"KEY": "two", "LOGIN": "one", "MORE": "three"}]]
    assert ada.run("pbook", "delete_secret", "MORE").code == 0
    shown = ada.run("pbook", "list_secrets").text
    assert "LOGIN" in shown and "two" in shown and "MORE" not in shown
    assert ada.run("pbook", "delete_all_secrets").code == 0
    assert ada.call("get_user_secrets") == [0, [True, {}]]


def test_the_client_hears_as_whom_it_is_known(ada: Person) -> None:
    code, attributes = ada.call("get_cert_attributes")
    assert (code, attributes) == (0, {"GRST_CRED_AURI_0": "dn:ada", "GRST_CRED_AURI_1": "fqan:/atlas"})
    assert ada.call("hello")[0] == 0


def test_the_parent_of_a_chained_task_is_told(ada: Person, waiting: int) -> None:
    child = prun(ada, "child", "--parentTaskID", str(waiting)).task_id
    code, parent = ada.call("get_parent_detailed_info", child)
    assert code == 0 and parent["jediTaskID"] == waiting and parent["task_name"] == "user.ada.waiting/"
    assert ada.call("get_parent_detailed_info", waiting) == [255, None], "it has none"


def test_input_of_the_catalogue_is_split_as_prun_says(system: LiveSystem, ada: Person) -> None:
    options = ("--inDS", DATASET, "--nFiles", "6", "--nFilesPerJob", "3", "--memory", "1500")
    task_id = prun(ada, "input", *options, n_jobs=None).task_id
    details = system.wait_until(task_id, lambda details: bool(details["jobs"]))
    assert (details["files"]["total"], details["ram_count"], details["split_rule"]["nFilesPerJob"]) == (6, 1500, 3)
    code, [dataset] = ada.call("get_files_in_datasets", task_id)
    assert (code, dataset["type"], len(dataset["files"])) == (0, "input", 6)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--inDS", "user.ada.nothing"], "a dataset or container of the catalogue"),
        (["--nJobs", "1", "--site", "NOWHERE"], "site = 'NOWHERE': allowed: a site or queue of the grid"),
    ],
)
def test_a_refused_submission_tells_every_reason(ada: Person, options: list[str], told: str) -> None:
    said = prun(ada, "refused", *options, n_jobs=None)
    assert said.code != 0 and "task submission failed. " in said.text and told in said.text


def test_what_a_user_is_given_otherwise_is_shown_by_the_client(system: LiveSystem, ada: Person) -> None:
    said = prun(ada, "otherwise", "--priority", "5000")
    assert "Warning: currentPriority = 5000 is taken as 1000; allowed: 900 to 1100" in said.text
    matched = prun(ada, "matched", "--osMatching")
    assert "Warning: osMatching is taken and nothing is done for it: " in matched.text
    details = system.get("task/get_details", task_id=said.task_id)
    assert (details["current_priority"], details["base_walltime"]) == (1000, 60)


def test_a_name_is_taken_once(ada: Person, waiting: int) -> None:
    said = prun(ada, "waiting", "--memory", "1000")
    assert said.code != 0 and f"task {waiting}" in said.text


def test_a_task_that_ended_goes_on_when_it_is_submitted_again_with_new_code(system: LiveSystem, ada: Person) -> None:
    first = prun(ada, "new-code").task_id
    before = archive_of(system.get("task/get_details", task_id=first, include_parameters=True)["task_parameters"])
    assert ada.run("pbook", "kill", str(first)).code == 0
    system.wait_for(first, "aborted")
    more = ada.work_directory() / "more.sh"
    more.write_text("echo more\n")
    again = prun(ada, "new-code", "--useNewCode")
    more.unlink()
    assert again.code == 0 and again.task_id == first, again.text
    details = system.wait_until(first, lambda found: found["status"] in ("ready", "scouting", "running"))
    assert details["task_id"] == first
    after = archive_of(system.get("task/get_details", task_id=first, include_parameters=True)["task_parameters"])
    assert after != before


def test_a_second_task_of_a_name_is_made_where_that_is_asked_for(system: LiveSystem, ada: Person) -> None:
    first = prun(ada, "duplicate").task_id
    second = prun(ada, "duplicate", "--allowTaskDuplication")
    assert second.code == 0 and second.task_id != first, second.text


def test_lists_can_be_filtered_by_what_the_client_calls_active_and_ended(
    ada: Person, waiting: int, finished: int
) -> None:
    found = {one: ada.run("pbook", "show", one).text for one in ("run", "fin")}
    assert "user.ada.waiting/" in found["run"] and "user.ada.waiting/" not in found["fin"]
    assert "user.ada.finished/" in found["fin"] and "user.ada.finished/" not in found["run"]


def test_what_is_not_carried_out_is_told_in_the_form_that_each_function_reads(ada: Person) -> None:
    reason = "workflows are not supported by this version"
    for function, arguments in (
        ("submit_workflow", [{"steps": []}]),
        ("call_idds_user_workflow_command", ["get_status", {"request_id": 1}]),
        ("call_idds_command", ["get_requests"]),
        ("send_workflow_request", [{}]),
    ):
        code, (is_done, text) = ada.call(function, *arguments)
        assert (code, is_done) == (0, False) and reason in text, function


def test_a_certificate_that_a_proxy_verified_is_as_good_as_a_token(system: LiveSystem, by_certificate: Person) -> None:
    code, attributes = by_certificate.call("get_cert_attributes")
    assert (code, attributes["GRST_CRED_AURI_0"]) == (0, "dn:x509:grace")
    task_id = prun(by_certificate, "proxied").task_id
    assert system.get("task/get_details", task_id=task_id)["user_name"] == "x509:grace"
    assert by_certificate.call("killTask", task_id) == [0, [True, 0]]
