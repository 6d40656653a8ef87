"""Runtime parameters of this service."""

from __future__ import annotations

from shared.config.parameter import Parameter

OPEN_DATASET_CHECK_S = Parameter(
    "taskrefiner", "OPEN_DATASET_CHECK_S", 300.0, "s", "until an open dataset is looked at again", 1
)
GROWN_DATASET_CHECK_S = Parameter(
    "taskrefiner", "GROWN_DATASET_CHECK_S", 15.0, "s", "until an open dataset that grew or was closed is read again", 0
)
CLOSED_DATASET_CHECK_S = Parameter(
    "taskrefiner", "CLOSED_DATASET_CHECK_S", 3600.0, "s", "until a closed dataset is looked at again", 1
)
INPUT_CHECKED_FOR_DAYS = Parameter(
    "taskrefiner", "INPUT_CHECKED_FOR_DAYS", 30.0, "days", "after the last change, that input is looked at again"
)
WAIT_FOR_PENDING_S: Parameter[float | None] = Parameter(
    "taskrefiner",
    "WAIT_FOR_PENDING_S",
    None,
    "s",
    "until a held task is tried again; else by priority",
    1,
    kind="float",
)
SETTLE_AFTER_S = Parameter(
    "postprocessor", "SETTLE_AFTER_S", 60.0, "s", "until a task whose state did not change is taken up again"
)
REQUEST_LOST_AFTER_S = Parameter(
    "catalogue", "REQUEST_LOST_AFTER_S", 60.0, "s", "until a requested transfer is taken up again"
)
SANDBOX_KEPT_DAYS = Parameter(
    "taskrefiner", "SANDBOX_KEPT_DAYS", 60.0, "days", "until an uploaded file that nobody fetches is forgotten", 1
)
SANDBOX_OF_USER_GB = Parameter(
    "taskrefiner", "SANDBOX_OF_USER_GB", 10.0, "GB", "that the uploaded files of one person may take together"
)
SERIES_SUBMITTER_SEEN_DAYS = Parameter(
    "taskrefiner",
    "SERIES_SUBMITTER_SEEN_DAYS",
    30.0,
    "days",
    "without a token of who submitted a periodic series, until it pauses",
    1,
)
SANDBOX_UPLOADS_AT_ONCE = Parameter(
    "taskrefiner",
    "SANDBOX_UPLOADS_AT_ONCE",
    4,
    "uploads",
    "of files that one person may send at the same time",
    1,
    1000,
)
ANALYSIS_SCRIPTS_URL = Parameter(
    "taskrefiner",
    "ANALYSIS_SCRIPTS_URL",
    "http://pandaserver-doma.cern.ch:25080/trf/user/",
    "",
    "where the scripts are that run the work of PanDA's client",
)
ANALYSIS_SCRIPTS: Parameter[dict[str, str]] = Parameter(
    "taskrefiner",
    "ANALYSIS_SCRIPTS",
    {
        "run": "runGen-00-00-02",
        "athena": "runAthena-00-00-12",
        "cont": "runcontainer",
        "hpo": "runHPO-00-00-01",
        "build run": "buildGen-00-00-01",
        "build athena": "buildJob-00-00-03",
        "merge run": "runMerge-00-00-02",
        "merge athena": "runMerge-00-00-02",
        "prepare grl": "preGoodRunList-00-00-01",
    },
    "",
    "which script runs the work of PanDA's client, by the word after jedi in processingType, its build, merge and "
    "pre-processing jobs",
)
READ_FRESH_FOR_S = Parameter(
    "catalogue", "READ_FRESH_FOR_S", 300.0, "s", "for which a dataset of a catalogue outside needs no other reading", 1
)
RULE_LOOK_UP_S = Parameter(
    "catalogue", "RULE_LOOK_UP_S", 3600.0, "s", "until a rule is looked at of which nothing was said", 1
)
STAGING_LOOK_UP_S = Parameter(
    "catalogue", "STAGING_LOOK_UP_S", 300.0, "s", "until a rule that stages input, and what it brought, is looked at", 1
)
ONE_TIME_COPY_DAYS = Parameter(
    "catalogue", "ONE_TIME_COPY_DAYS", 7.0, "days", "for which input is kept where it was brought for one task"
)
TRANSIENT_DATASET_DAYS = Parameter(
    "catalogue",
    "TRANSIENT_DATASET_DAYS",
    7.0,
    "days",
    "until a transient dataset is deleted that nobody reads any more",
)
