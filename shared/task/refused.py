"""Rules of the field that this version does not carry out: refused with the reason, never ignored."""

from __future__ import annotations

from collections.abc import Mapping

#: rule -> its letters in the text of split rules, and why it is refused unless its value says no
REFUSED_RULES: Mapping[str, tuple[str, str]] = {
    "registerEsFiles": (
        "RE",
        "zip files of ranges are not registered in a dataset by this version: the grid does not know "
        "which storage a store's number means, so they stay where pilots wrote them until they are merged",
    ),
    "allowInputWAN": (
        "IW",
        "from which storages a queue may read over a wide-area network instead of moving the input "
        "is not known to this version: input is moved",
    ),
    "pushJob": (
        "PJ",
        "jobs are taken by pilots in this version: none is pushed to a batch system by the server",
    ),
    "switchEStoNormal": (
        "SE",
        "how a task changes to jobs without ranges is not known to this version: leave out nEventsPerWorker",
    ),
    "workflowHoldup": (
        "WH",
        "workflows are not carried out by this version, so nothing would end the hold: submit the tasks "
        "of a workflow one by one, each with the parent it waits for (parent_tid)",
    ),
    "useZipToPin": ("UZ", "zipped input is not supported by this version"),
}
#: letters for what is no rule here -> where it is said instead
SAID_ELSEWHERE: Mapping[str, str] = {
    "FC": "whether input was read before is the state of its datasets",
    "FT": "the first event is the offset of the item with ${FIRSTEVENT}",
    "IA": "a dataset of a site knows its template by its own row",
    "IT": "a dataset of a site knows its template by its own row",
    "LS": "sites are limited by the lists includedSite and excludedSite",
    "LX": "the jobs are described by the parameter loadXML",
    "MS": "the steps are the parameter multiStepExec",
    "PL": "the files are the parameter pfnList",
    "RD": "whether a dataset is registered is its own state",
    "RM": "rules of retries are set by operators, for tasks that match them (orrery retry-rules)",
}
