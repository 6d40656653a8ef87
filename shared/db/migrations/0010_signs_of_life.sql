-- What brokerage also knows of a queue: disk IO of its running jobs, since when signs of life are noted, and the version
-- of the statistics under which it was last published.
ALTER TABLE queue_activity
    ADD COLUMN mean_disk_io_kb_s_per_core double precision,
    ADD COLUMN known_since timestamptz NOT NULL DEFAULT orrery_now(),
    ADD COLUMN statistics_version bigint NOT NULL DEFAULT 0;
