-- RW, the work that nuclei still have, kept by task_brokerage: of each task, and summed by nucleus and priority.
CREATE TABLE task_remaining_work (
    task_id bigint PRIMARY KEY,
    nucleus text NOT NULL,
    priority int NOT NULL,
    hs06_s double precision NOT NULL
) WITH (fillfactor = 70);
CREATE TABLE nucleus_remaining_work (
    nucleus text NOT NULL,
    priority int NOT NULL,
    hs06_s double precision NOT NULL,
    PRIMARY KEY (nucleus, priority)
) WITH (fillfactor = 50);
