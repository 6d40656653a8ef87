"""Names of task parameters: snake case in the code, the field's spelling in JSON."""

from __future__ import annotations

_ALIASES = {
    "req_id": "reqID", "ticket_id": "ticketID", "n_gb_per_job": "nGBPerJob", "n_gb_per_merge_job": "nGBPerMergeJob",
    "container_name": "container_name", "respect_lb": "respectLB", "order_by_lb": "orderByLB",
    "release_per_lb": "releasePerLB",
    "tgt_max_output_for_ng": "tgtMaxOutputForNG", "avoid_vp": "avoidVP", "source_url": "sourceURL",
    "use_local_io": "useLocalIO", "allow_input_lan": "allowInputLAN", "group_boundary_id": "groupBoundaryID",
    "load_xml": "loadXML",
    "ignore_missing_in_ds": "ignoreMissingInDS", "allow_incomplete_in_ds": "allowIncompleteInDS",
    "only_tags_for_fc": "onlyTagsForFC", "parent_task_id": "parent_tid",
    "max_attempt_es": "maxAttemptES", "merge_es_on_os": "mergeEsOnOS", "dec_att_on_failed_es": "decAttOnFailedES",
    "add_nth_field_to_lfn": "addNthFieldToLFN", "use_file_as_source_lfn": "useFileAsSourceLFN",
    "put_log_to_os": "putLogToOS", "cloud_as_vo": "cloudAsVO",
    "log_merge": "log_merge", "disk_io": "diskIO", "disk_io_unit": "diskIOUnit",
}  # fmt: skip


def alias_of(name: str) -> str:
    """The JSON name: ``n_files_per_job`` -> ``nFilesPerJob``."""
    if name in _ALIASES:
        return _ALIASES[name]
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
