"""What the demonstration shows of the queues."""

from services.cli.demo.display import queue_line
from services.cli.demo.observation import QueueLoad


def test_the_line_of_queues_names_the_busiest_first_and_leaves_out_the_idle() -> None:
    queues = [
        QueueLoad("IDLE", {"finished": 7}),
        QueueLoad("SMALL", {"activated": 1, "running": 1}),
        QueueLoad("LARGE", {"activated": 30, "sent": 2, "running": 8}),
    ]
    assert queue_line(queues) == "busiest queues: LARGE 30 ready, 10 running; SMALL 1 ready, 1 running"


def test_without_live_jobs_there_is_no_line_of_queues() -> None:
    assert queue_line([QueueLoad("IDLE", {"finished": 7})]) == ""
