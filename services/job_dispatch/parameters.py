"""Runtime parameters of this service."""

from __future__ import annotations

from typing import Any

from shared.auth.named import check_named, check_one_named
from shared.config.parameter import SERVER, Parameter

COMPONENT = "job_dispatch"

NO_JOB_RETRY_S = Parameter(COMPONENT, "NO_JOB_RETRY_S", 60, "s", "a pilot at an empty queue is told to wait", 1, 3600)
NO_JOB_LONGEST_RETRY_S = Parameter(
    COMPONENT, "NO_JOB_LONGEST_RETRY_S", 300, "s", "at most that, where pilots have got nothing for long", 1, 3600
)
SLOPPY_DISPATCH_RATIO = Parameter(
    "jobdispatch", "SLOPPY_DISPATCH_RATIO", 10.0, "%",
    "of picks: by age of the next jobs of shares not above their due, whatever the order of shares", 0, 100, app=SERVER,
)  # fmt: skip
IGNORE_MEANRSS = Parameter(
    "meanrss", "IGNORE_MEANRSS", False, "", "push queues take jobs of much memory whatever the others there have",
    app=SERVER,
)  # fmt: skip
OWN_IDS_BAND = Parameter(COMPONENT, "OWN_IDS_BAND", 50, "jobs", "of a window that replicas divide among them", 1)
CLAIMS_KEPT_S = Parameter(COMPONENT, "CLAIMS_KEPT_S", 86_400, "s", "for which a pilot may ask again for its job", 1)
FINISHED_WORKERS_KEPT_S = Parameter(
    COMPONENT, "FINISHED_WORKERS_KEPT_S", 86_400, "s", "for which ended workers are shown"
)
SILENT_WORKERS_KEPT_S = Parameter(
    COMPONENT, "SILENT_WORKERS_KEPT_S", 345_600, "s", "after which a silent worker is forgotten", 60
)
STDOUT_KEPT_S = Parameter(COMPONENT, "STDOUT_KEPT_S", 604_800, "s", "for which output of debug mode is kept", 60)
ACQUIRE_BODY_KB = Parameter(COMPONENT, "ACQUIRE_BODY_KB", 16, "KB", "of one acquire, at most", 1, 1024)
HEARTBEAT_BODY_KB = Parameter(
    COMPONENT, "HEARTBEAT_BODY_KB", 64, "KB", "of calls about one worker, machine or command, at most", 1, 1024
)
REPORT_BODY_KB = Parameter(
    COMPONENT, "REPORT_BODY_KB", 2048, "KB", "of one report, at most; larger fields are left out", 64, 32_768
)
BULK_BODY_KB = Parameter(COMPONENT, "BULK_BODY_KB", 8192, "KB", "of a list of reports, at most", 64, 32_768)
CALLS_PER_SUBJECT_PER_S = Parameter(
    COMPONENT, "CALLS_PER_SUBJECT_PER_S", 0.0, "calls/s", "of one subject at each dispatcher; 0: no limit", 0, 1e6
)
CALLS_PER_ADDRESS_PER_S = Parameter(
    COMPONENT, "CALLS_PER_ADDRESS_PER_S", 0.0, "calls/s", "from one address at each dispatcher; 0: no limit", 0, 1e6
)
CALL_BURST_S = Parameter(COMPONENT, "CALL_BURST_S", 60.0, "s", "whose calls may come at once, after a pause", 1, 3600)
REPORTERS: Parameter[Any] = Parameter(
    COMPONENT, "REPORTERS", None, "", "{queue or *: [subject]} that may report for others' jobs there",
    check=check_named,
)  # fmt: skip
ADVERTISERS: Parameter[Any] = Parameter(
    COMPONENT, "ADVERTISERS", None, "", "{site or *: [subject]} that may advertise the site",
    check=check_named,
)  # fmt: skip
PROXY_RECIPIENTS: Parameter[Any] = Parameter(
    COMPONENT, "PROXY_RECIPIENTS", None, "", "{proxy or *: [subject]} that may have the proxy (getProxy)",
    check=check_named,
)  # fmt: skip
KEY_PAIR_RECIPIENTS: Parameter[Any] = Parameter(
    COMPONENT, "KEY_PAIR_RECIPIENTS", None, "", "{key or *: [subject]} that may have the key (getKeyPair)",
    check=check_named,
)  # fmt: skip
PILOT_SECRETS: Parameter[Any] = Parameter(
    COMPONENT, "PILOT_SECRETS", None, "",
    "{queue or *: subject} whose secrets for pilots, of the VO of each job, go with it (pilotSecrets)",
    check=check_one_named,
)  # fmt: skip
RENEWED_TOKEN_S = Parameter(
    COMPONENT, "RENEWED_TOKEN_S", 432_000, "s", "for which a token that a pilot renewed is valid", 60, 2_592_000
)
