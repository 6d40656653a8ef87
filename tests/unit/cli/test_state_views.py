"""What the command line shows of tasks and jobs whose details are withheld."""

WITHHELD = "names, places and texts are told to the owner, production of its VO (atlas), and operators"
TASK = {"task_id": 7, "status": "running", "task_name": None, "user_name": None, "nucleus": None, "error_dialog": None,
        "vo": "atlas", "withheld": WITHHELD}  # fmt: skip
OWN = {"task_id": 8, "status": "running", "task_name": "mine", "user_name": "bob"}


def test_lists_say_once_to_whom_the_rest_is_told(services, orrery):
    services.says("task/list", [TASK, TASK | {"task_id": 6}, OWN])
    assert orrery("tasks").out.count(WITHHELD) == 1 and f"of 2 the state alone: {WITHHELD}" in orrery("tasks").out
    services.says("task/list", [OWN])
    assert "the state alone" not in orrery("tasks").out
    job = {"job_id": 3, "task_id": 7, "status": "running", "queue": None, "resource_type": "SCORE", "worker": None}
    services.says("job/list", [job | {"withheld": WITHHELD}])
    out = orrery("jobs").out
    assert f"of 1 the state alone: {WITHHELD}" in out and "/SCORE" in out and "None" not in out


def test_a_task_of_others_is_followed_by_its_counts(services, orrery):
    files = {"total": 10, "used": 10, "finished": 9, "failed": 1}
    details = TASK | {"status": "finished", "datasets": [], "files": files, "jobs": {"finished": 9, "failed": 1}}
    services.says("task/get_details", details)
    watched = orrery("watch", "7")
    assert watched.code == 0 and "files 9/10 finished, 1 failed" in watched.out and "None" not in watched.out
    shown = orrery("task", "7").out
    assert WITHHELD in " ".join(shown.split()) and "None" not in shown


def test_task_queues_of_others_have_no_user(services, orrery):
    row = {
        "task_queue_id": 1, "priority": 5.0, "vo": "atlas", "user_group": "g", "user_name": None, "n_jobs": 2,
        "cpu_segment_s": 360, "group_share": 1.0, "group_correction": 1.0, "n_users": 1, "user_correction": 1.0,
        "entity_share": 1.0, "user_priority": 1.0, "sum_user_priority": 1.0, "is_background": False, "alone": 1.0,
        "n_alike": 1, "sites": None, "banned_sites": None, "platforms": None, "tags": None, "job_types": [],
        "withheld": WITHHELD,
    }  # fmt: skip
    services.says("job/task_queues", {"n_task_queues": 1, "task_queues": [row]})
    out = orrery("task-queues").out
    assert f"of 1 the state alone: {WITHHELD}" in out and "None" not in out
