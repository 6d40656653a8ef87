from shared.events import JobMove, moves_of
from shared.events.jobs import ChangedJob


def job(was: str | None = "sent", *, task: int = 1, queue: str = "Q1", share: str = "MC", cores: int = 8) -> ChangedJob:
    return (task, queue, "MCORE", share, "alice", was, cores)  # type: ignore[return-value]


def test_moves_are_counted_by_everything_that_statistics_tell_apart() -> None:
    jobs = [job(), job(cores=1), job("running"), job(task=2), job(queue="Q0"), job(share="Test")]
    found = [
        (one.task_id, one.queue, one.gshare, one.from_status, one.n_jobs, one.n_cores)
        for one in moves_of(jobs, "failed")
    ]
    assert found == [
        (1, "Q0", "MC", "sent", 1, 8),
        (1, "Q1", "MC", "running", 1, 8),
        (1, "Q1", "MC", "sent", 2, 9),
        (1, "Q1", "Test", "sent", 1, 8),
        (2, "Q1", "MC", "sent", 1, 8),
    ]


def test_jobs_that_were_inserted_have_no_former_state() -> None:
    assert moves_of([job(None)], "defined") == (
        JobMove(
            task_id=1,
            queue="Q1",
            resource_type="MCORE",
            gshare="MC",
            user_name="alice",
            from_status=None,
            to_status="defined",
            n_jobs=1,
            n_cores=8,
        ),
    )
    assert moves_of([], "defined") == ()
