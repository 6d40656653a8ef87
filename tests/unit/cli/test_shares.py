"""`orrery shares`: explained, edited, and ordered from a world file."""

from __future__ import annotations

import json

import pytest

from services.cli.commands.shares import said
from services.cli.failures import Refused, WrongUsage

TERMS = {"target": 0.5, "total": 0.6667, "max_global": 3.0, "factor": 0.6667, "instance": "G", "at": None,
         "slices": {"WeekSlice": {"used": 0.75, "c": 0.6667, "weight": 0.8, "adds": 0.5333}}}  # fmt: skip
ROW = {"place": 1, "gshare": "MC", "due_percent": 50.0, "used_percent": 75.0, "standing": "borrows",
       "correction_factor": 0.6667, "corrected_percent": 40.0, "pledged_hs06": 1.0, "received_hs06": 0.0, "ratio": 1.5,
       "queued_jobs": 3, "terms": TERMS}  # fmt: skip
USE = {"gshare": "MC", "width_s": 3600, "names": ["ann", "others"], "buckets": [
    {"begins_at": "2026-03-01T12:00:00+00:00", "ends_at": "2026-03-01T13:00:00+00:00", "hs06": 120.0,
     "percent": {"ann": 75.0, "others": 25.0}}]}  # fmt: skip


def test_what_was_used_is_shown_in_buckets_without_any_correction(services, orrery):
    services.says("share/history", {**USE, "gshare": None, "names": ["MC", "Data"]})
    out = orrery("shares", "--hours", "6").out
    assert services.asked("share/history") == [{"hours": "6.0"}]
    assert "mean use of shares in every 1.0 h" in out and "MC %" in out
    services.says("share/explain", {"shares": [ROW], "users": [], "history": []})
    services.says("share/history", USE)
    out = orrery("shares", "--explain", "MC", "--hours", "6").out
    assert services.asked("share/history")[-1] == {"gshare": "MC", "hours": "6.0"}
    assert "2026-03-01 12:00 UTC  120   75     25" in out and "mean use of users of MC" in out
    services.says("share/history", {**USE, "buckets": []})
    assert orrery("shares", "--hours", "1").out == "nothing was used in these hours\n"


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (("--explain",), {}),
        (("--explain", "--json"), {}),
        (("--explain", "MC"), {"gshare": "MC", "hours": "24.0"}),
        (("--hours", "2", "--explain", "MC"), {"gshare": "MC", "hours": "2.0"}),
        (("--explain=MC",), {"gshare": "MC", "hours": "24.0"}),
    ],
)
def test_explain_asks_for_all_shares_or_for_one(services, orrery, arguments, asked):
    services.says("share/explain", {"shares": [ROW]})
    services.says("share/history", USE)
    outcome = orrery("shares", *arguments)
    assert outcome.code == 0 and services.asked("share/explain") == [asked]
    assert "MC" in outcome.out and "borrows" in outcome.out


def test_one_share_is_shown_with_its_users_and_its_corrections_over_time(services, orrery):
    users = [{"user_name": "ann", "correction_factor": 0.5, "terms": None}]
    history = [{**TERMS, "at": "2026-03-01T12:00:00+00:00"}]
    services.says("share/explain", {"shares": [ROW], "users": users, "history": history})
    services.says("share/history", USE)
    shown = orrery("shares", "--explain", "MC").out
    assert "ann" in shown and "not corrected" in shown and "Corrections" in shown
    assert "target 50 %; WeekSlice used 75 %: 0.6667 x 0.8; sum 0.6667 of at most 3" in shown


def test_terms_are_said_in_a_line():
    assert said(None) == "not corrected"


def test_an_edited_tree_is_sent_whole_and_its_changes_are_shown(services, orrery, tmp_path):
    file = tmp_path / "shares.json"
    file.write_text(json.dumps([{"name": "MC", "value": 60}]))
    change = {"gshare": "MC", "change": "changed", "due_percent_before": 50.0, "due_percent_after": 60.0,
              "fields": {"value": [50, 60]}}  # fmt: skip
    services.says("share/load", {"n_shares": 1, "changes": [change]})
    outcome = orrery("shares", "edit", str(file))
    assert outcome.code == 0 and "value: 50 -> 60" in outcome.out and "1 shares loaded" in outcome.out
    outcome = orrery("shares", "edit", str(file), "--dry-run")
    assert "nothing was changed" in outcome.out
    assert [(one["shares"], one["dry_run"]) for one in services.asked("share/load")] == [
        ([{"name": "MC", "value": 60}], False), ([{"name": "MC", "value": 60}], True),
    ]  # fmt: skip


def test_work_queues_are_loaded_with_the_shares_after_both_were_checked(services, orrery, tmp_path):
    file = tmp_path / "shares.json"
    queues = [{"queue_id": 1, "name": "simulation", "label": "managed", "vo": "demo"}]
    file.write_text(json.dumps({"shares": [{"name": "MC", "value": 60}], "work_queues": queues}))
    services.says("share/load", {"n_shares": 1, "changes": []})
    services.says("work_queue/load", {"n_work_queues": 1, "matching_tasks": {}})
    outcome = orrery("shares", "edit", str(file))
    assert outcome.code == 0 and "1 work queues loaded" in outcome.out
    assert [one.get("dry_run") for one in services.asked("work_queue/load")] == [True, None]
    services.says("work_queue/load", None, message="simulation is missing, but 7 live tasks have it", success=False)
    outcome = orrery("shares", "edit", str(file))
    assert outcome.code == Refused.exit_code and "7 live tasks" in outcome.err
    assert len(services.asked("share/load")) == 1


def test_a_refused_tree_ends_with_the_reason(services, orrery, tmp_path):
    file = tmp_path / "shares.json"
    file.write_text('{"shares": []}')
    services.says("share/load", None, message="MC is missing, but 7 live tasks have it", success=False)
    outcome = orrery("shares", "edit", str(file))
    assert outcome.code == Refused.exit_code and "7 live tasks" in outcome.err


@pytest.mark.parametrize("content", ["{", "3", '{"tree": []}', '{"shares": [], "work_queues": {}}', None])
def test_a_file_that_is_no_tree_is_wrong_usage(services, orrery, tmp_path, content):
    file = tmp_path / "shares.json"
    if content is not None:
        file.write_text(content)
    outcome = orrery("shares", "edit", str(file))
    assert outcome.code == WrongUsage.exit_code and "FILE" in outcome.err
    assert services.asked("share/load") == []


@pytest.fixture
def world_file(tmp_path):
    world = {
        "format": "orrery-world/1", "now": "2026-03-01T12:00:00+00:00", "sites": {}, "storages": {}, "queues": {},
        "shares": [{"name": "MC", "value": 50}, {"name": "Data", "value": 50}, {"name": "Test", "value": 0}],
        "share_corrections": {"Data": 2.0},
        "statistics": [
            {"queue": "Q", "resource_type": "SCORE", "gshare": gshare, "user_name": "ann", "status": status,
             "n_jobs": n, "n_cores": n}
            for gshare, status, n in (("MC", "running", 6), ("Data", "sent", 6), ("MC", "activated", 1),
                                      ("Data", "activated", 2), ("Data", "finished", 99))
        ],
    }  # fmt: skip
    file = tmp_path / "world.json"
    file.write_text(json.dumps(world))
    return file, world


def test_shares_of_a_world_file_are_ordered_with_every_term(orrery, world_file):
    rows = json.loads(orrery("dry-run", "shares", "--world", str(world_file[0]), "--json").out)
    assert [(row["gshare"], row["place"], row["used_hs06"], row["pledged_hs06"], row["ratio"]) for row in rows] == [
        ("Test", 1, 0.0, 0.0, 1e6), ("Data", 2, 60.0, 80.0, 0.75), ("MC", 3, 60.0, 40.0, 1.5),
    ]  # fmt: skip
    assert [row["queued_jobs"] for row in rows] == [0, 2, 1]


def test_a_correction_of_a_share_that_is_not_there_is_refused(orrery, world_file):
    file, world = world_file
    file.write_text(json.dumps({**world, "share_corrections": {"Nowhere": 2.0}}))
    outcome = orrery("dry-run", "shares", "--world", str(file))
    assert outcome.code == WrongUsage.exit_code and "Nowhere" in outcome.err
