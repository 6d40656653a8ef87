"""A task's row as a request for one of its jobs, whoever asks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.brokerage.matchmaking import requirements_in
from shared.brokerage.request import JobRequest
from shared.brokerage.smallest_job import most_events
from shared.brokerage.software import software_of_task
from shared.model.analysis import is_analysis
from shared.model.names import names_in
from shared.task.in_effect import rules_of
from shared.task.needs import WorkNeeds


def request_of_task(row: Mapping[str, Any], needs: WorkNeeds, now: datetime) -> JobRequest:
    """The request for an ordinary job of a task (columns of table `tasks`).

    The caller replaces what differs, and says why. A task that is not stored has no id, one that waits for a nucleus
    has no nucleus.

    Raises InvalidArchitecture, ValueError.
    """
    rules = rules_of(row["split_rule"])
    return JobRequest(
        task_id=row.get("task_id") or 0,
        now=now,
        needs=needs,
        vo=row["vo"] or "",
        label=row["prod_source_label"] or "",
        is_analysis=is_analysis(row["task_type"], row["prod_source_label"]),
        processing_type=row["processing_type"] or "",
        working_group=row["working_group"] or "",
        gshare=row["gshare"] or "",
        user_name=row.get("user_name") or "",
        resource_type=row["resource_type"] or "",
        priority=row["current_priority"],
        is_pre_merged=rules.merge_output,
        is_event_service=row.get("event_service") == 1,
        uses_jumbo=row.get("use_jumbo") not in (None, "D"),  # D: disabled
        dynamic_number_of_events=rules.granularity is not None,
        most_events=most_events(rules),
        t1_weight=rules.t1_weight or 0,
        full_chain=rules.full_chain or "",
        software=software_of_task(row, rules),
        direct_access_only=rules.allow_input_lan == "only",
        nucleus=row.get("nucleus"),
        preassigned=names_in(row["site"]),
        included=tuple(rules.included_site or ()),
        excluded=tuple(rules.excluded_site or ()),
        copies_to_scratch=rules.copies_to_scratch,
        stations=tuple(rules.sam_stations or ()),
        requirements=requirements_in(rules.requirements),
    )
