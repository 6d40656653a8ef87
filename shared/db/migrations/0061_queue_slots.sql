-- Slots that Harvester set for a queue and resource type ('': for the whole queue), until when they hold. `n_slots` of
-- queue_activity is their sum, NULL where none are set.
CREATE TABLE queue_slots (
    queue text NOT NULL,
    resource_type text NOT NULL DEFAULT '',
    n_slots int NOT NULL CHECK (n_slots >= 0),
    valid_until timestamptz,
    PRIMARY KEY (queue, resource_type)
);
INSERT INTO queue_slots (queue, n_slots) SELECT queue, n_slots FROM queue_activity WHERE n_slots >= 0;

-- What of it holds now, one row for each queue.
CREATE VIEW valid_queue_slots AS
SELECT queue, max(n_slots) FILTER (WHERE resource_type = '') AS n_slots,
       coalesce(jsonb_object_agg(resource_type, n_slots) FILTER (WHERE resource_type <> ''), '{}') AS slots_of_type,
       sum(n_slots)::int AS n_slots_in_all
FROM queue_slots
WHERE valid_until IS NULL OR valid_until > orrery_now()
GROUP BY queue;
