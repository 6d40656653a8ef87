"""A task on one page: over answers of a live system, without a server afterwards."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from services.cli.task_report.efficiency import efficiencies
from tests.handlers.console.stubbed_api import RECORDED

HOSTILE = '"><script>alert(1)</script>'
PATHS = ("task/get_details", "explain/task", "job/list", "job/get_description_incl_archive")


@pytest.fixture
def told(services):
    """The services answer as they did."""
    for path in PATHS:
        services.says(path, RECORDED[path]["data"])
    jobs = [{**one, "status": "finished"} for one in RECORDED["job/list"]["data"]]
    services.says("job/list", jobs)
    return services


class Loads(HTMLParser):
    """Collects what a browser would fetch or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "link", "img", "iframe", "object", "base") or "src" in given or "href" in given:
            self.found.append(f"{tag} {given}")
        self.found += [name for name in given if name.startswith("on")]


def test_one_file_has_what_it_asked_where_it_ran_over_time_how_well_what_failed_and_how_to_repeat_it(
    told, orrery, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    outcome = orrery("report", "7", "--html", "--output", str(file))
    assert outcome.code == 0 and f"task 7 written to {file}" in outcome.out + outcome.err
    text = file.read_text()
    for heading in ("What it asked", "Where it ran, and why", "Over time", "How well its jobs ran", "What failed",
                    "How to repeat it"):  # fmt: skip
        assert f"<h2>{heading}</h2>" in text
    assert "simulated failure of the payload" in text and 'class="series"' in text and "left out by" in text
    assert '"nEventsPerJob"' in text or "&#34;nEventsPerJob&#34;" in text, "its parameters"
    assert '<dt>creation date</dt><dd><time datetime="' in text and '<td class="n"></td>' not in text
    assert Loads(text).found == [] and "default-src 'none'" in text.replace("&#39;", "'")


def test_what_others_wrote_is_text_in_the_file_too(told, orrery, services) -> None:
    details = {**RECORDED["task/get_details"]["data"], "task_name": HOSTILE, "error_dialog": HOSTILE}
    services.says("task/get_details", details)
    text = orrery("report", "7", "--html", "--output", "-").out
    assert "alert(1)" in text and Loads(text).found == []


def test_programs_get_the_same_as_json(told, orrery) -> None:
    found = json.loads(orrery("report", "7", "--json").out)
    assert found["task"]["task_id"] == 7 and found["decisions"][0]["groups"] and found["efficiency"]


def test_a_task_of_which_only_the_state_is_told_has_no_report(told, orrery, services) -> None:
    services.says("task/get_details", {"task_id": 7, "status": "running", "withheld": "details are for ada"})
    outcome = orrery("report", "7", "--html")
    assert outcome.code == 1 and "only its state is told: details are for ada" in outcome.err + outcome.out


def test_a_form_is_named(told, orrery) -> None:
    assert orrery("report", "7").code == 2 and orrery("report", "7", "--html", "--json").code == 2


def test_efficiency_is_the_median_of_each_kind_by_the_payloads_time() -> None:
    def job(cpu: float, **more: object) -> dict[str, object]:
        report = {"cpu_consumption_time": cpu, "n_events": 100, "max_pss": 2048 * 1024, "pilot_timing": "2|70|360|75|5"}
        return {"job_type": "normal", "core_count": 8, "report": report, **more}

    none = {"job_type": "scout", "core_count": 1, "report": None}
    normal, scout = efficiencies([job(1440.0), job(2880.0), job(2304.0), none])
    assert (normal.n_jobs, normal.cpu_percent, normal.walltime_s, normal.max_pss_mb) == (3, 80.0, 360.0, 2048.0)
    assert normal.cpu_s_per_event == 23.04
    assert (scout.n_jobs, scout.cpu_percent, scout.walltime_s, scout.max_pss_mb) == (1, None, None, None)


def test_a_job_without_timing_lasts_from_its_start_to_its_end() -> None:
    times = {"start_time": "2026-11-27T10:00:00+00:00", "end_time": "2026-11-27T11:00:00+00:00"}
    [one] = efficiencies([{"job_type": "normal", "core_count": 1, "report": {"cpu_consumption_time": 1800}, **times}])
    assert (one.cpu_percent, one.walltime_s) == (50.0, 3600.0)


def test_the_words_of_the_page_are_those_of_the_console() -> None:
    text = Path("services/cli/task_report/report.html").read_text()
    assert not re.search(r"\|\s*safe\b", text)
