from __future__ import annotations

import pytest

from services.task_definition.tasks.policy.file_status import FileInTask, shown_status


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (FileInTask("input", "ready"), "ready"),
        (FileInTask("input", "ready", n_ranges=3), "ready"),
        (FileInTask("input", "ready", n_ranges=3, n_ranges_finished=1), "partial"),
        (FileInTask("input", "finished", n_ranges=3, n_ranges_finished=2), "partial"),
        (FileInTask("input", "finished", n_ranges=3, n_ranges_finished=3), "finished"),
        *((FileInTask("output", "running", status), "defined")
          for status in ("pending", "waiting", "defined", "assigned", "activated", "throttled", "sent")),
        (FileInTask("output", "running", "starting"), "running"),
        (FileInTask("log", "running", "running"), "running"),
        *((FileInTask("output", "running", status), "prepared")
          for status in ("holding", "transferring", "merging", "finished")),
        (FileInTask("output", "running", "failed"), "running"),
        (FileInTask("output", "running"), "running"),
        (FileInTask("output", "finished", "finished"), "finished"),
        (FileInTask("output", "nooutput", "finished"), "nooutput"),
        (FileInTask("output", "cancelled"), "cancelled"),
        (FileInTask("trn_output", "ready", "merging"), "prepared"),
        (FileInTask("trn_output", "picked", "merging", is_taken_for_merge=True), "merging"),
        (FileInTask("trn_log", "running", "merging", is_taken_for_merge=True), "merging"),
        (FileInTask("trn_output", "finished", "merging"), "finished"),
        (FileInTask("trn_output", "failed", "cancelled"), "failed"),
    ],
)  # fmt: skip
def test_the_shown_status_is_the_word_of_the_chart(file: FileInTask, expected: str) -> None:
    assert shown_status(file) == expected
