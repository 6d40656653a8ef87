"""`orrery groups`, `users`, `work-queues`, `set-priority`, `set-share`: what is sent, what is refused before it is."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    ("arguments", "path", "body"),
    [
        (
            ["groups", "set", "higgs", "--vo", "demo", "job_share=300", "job_sharing=true"],
            "group/set",
            {"name": "higgs", "vo": "demo", "job_share": 300, "job_sharing": True},
        ),
        (["groups", "remove", "higgs", "--vo", "demo"], "group/remove", {"name": "higgs", "vo": "demo"}),
        (
            ["users", "set", "alice", "grid_pref=sk", 'groups=["higgs"]', "cap_running_jobs=null", "quota=1.5"],
            "user/set",
            {"user_name": "alice", "grid_pref": "sk", "groups": ["higgs"], "cap_running_jobs": None, "quota": 1.5},
        ),
        (["users", "remove", "alice"], "user/remove", {"user_name": "alice"}),
        (["users", "set", "ada", "quota=2", "--vo", "cms"], "user/set", {"user_name": "ada", "vo": "cms", "quota": 2}),
        (["users", "remove", "ada", "--vo", "cms"], "user/remove", {"user_name": "ada", "vo": "cms"}),
        (["set-priority", "900", "7"], "task/change_priority", {"task_id": 7, "priority": 900}),
        (["set-priority", "-5", "7"], "task/change_priority", {"task_id": 7, "priority": -5}),
        (["set-priority", "900", "7", "--jobs"], "job/change_priority", {"job_id": 7, "priority": 900}),
        (["set-share", "Express", "7"], "task/change_share", {"task_id": 7, "share": "Express"}),
    ],
)
def test_what_is_asked_of_the_services(services, orrery, arguments, path, body):
    services.says(path)
    outcome = orrery(*arguments)
    assert outcome.code == 0, outcome.err
    assert services.asked(path) == [body]


def test_lists_are_loaded_from_files(services, orrery, tmp_path):
    for verb, path, name in (
        ("groups", "group/load", "groups"),
        ("users", "user/load", "users"),
        ("work-queues", "work_queue/load", "work_queues"),
    ):
        services.says(path)
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({name: [{"name": "one"}]}))
        assert orrery(verb, "load", str(file)).code == 0
        assert services.asked(path)[0][name] == [{"name": "one"}]
        file.write_text("{}")
        assert orrery(verb, "load", str(file)).code == 2


def test_a_work_queue_keeps_what_is_not_given(services, orrery):
    known = {"queue_id": 3, "name": "simulation", "label": "managed", "vo": "demo", "order": 10, "n_tasks": 5}
    services.says("work_queue/list", [known])
    services.says("work_queue/set", {"matching_tasks": {"simulation": 4}})
    outcome = orrery("work-queues", "set", "simulation", "order=20", "--dry-run")
    assert outcome.code == 0 and "match 4 live tasks" in outcome.out
    kept = {name: value for name, value in known.items() if name != "n_tasks"}
    assert services.asked("work_queue/set") == [{"work_queue": {**kept, "order": 20}, "dry_run": True}]
    assert "simulation" in orrery("work-queues", "list").out


def test_a_work_queue_is_removed_by_its_name(services, orrery):
    services.says("work_queue/list", [{"queue_id": 3, "name": "a", "vo": "x"}, {"queue_id": 4, "name": "a", "vo": "y"}])
    services.says("work_queue/remove")
    assert orrery("work-queues", "remove", "a").code == 2
    assert orrery("work-queues", "remove", "b").code == 2
    assert orrery("work-queues", "remove", "a", "--vo", "y").code == 0
    assert services.asked("work_queue/remove") == [{"queue_id": 4}]


@pytest.mark.parametrize("arguments", [["users", "set", "a", "quota"], ["users", "set", "a", "x=1", "x=2"]])
def test_fields_are_names_with_values(services, orrery, arguments):
    assert orrery(*arguments).code == 2
    assert services.requests == []
