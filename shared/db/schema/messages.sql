-- Messages between services: what is to be sent, what was handled, what could not be handled.

-- Ids of events, in the order in which they were emitted.
CREATE SEQUENCE event_ids;

-- Events that were emitted and are not published yet: written in the transaction of the change they state, deleted when
-- the broker has confirmed them.
CREATE TABLE outbox (
    event_id bigint PRIMARY KEY DEFAULT nextval('event_ids'),   -- of the event; the consumer's inbox knows it by that
    routing_key text NOT NULL,                 -- task.defined.v1
    body text NOT NULL,                        -- the event, as JSON
    producer text NOT NULL,                    -- the service that emitted it
    trace_parent text,                         -- of the trace that it belongs to (W3C traceparent)
    created_at timestamptz NOT NULL DEFAULT orrery_now()   -- when it was emitted
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);

-- Events that a consumer has handled, written with the effects: a second delivery finds its row and changes nothing.
-- One partition for each day of the event.
CREATE TABLE inbox (
    event_day date NOT NULL,                   -- the day of the event, in UTC
    consumer text NOT NULL,                    -- the queue: task-brokerage.task-defined
    event_id bigint NOT NULL,                  -- of the event
    handled_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    PRIMARY KEY (event_day, consumer, event_id)
) PARTITION BY RANGE (event_day);
CREATE TABLE inbox_default PARTITION OF inbox DEFAULT;

-- Messages whose handler failed for a reason that passes: they are tried again when their time has come.
CREATE TABLE deferred_messages (
    deferred_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    event_id bigint NOT NULL,                  -- of the event
    consumer text NOT NULL,                    -- the queue whose handler failed
    routing_key text NOT NULL,                 -- of the event
    body text NOT NULL,                        -- the event, as JSON
    reason text NOT NULL,                      -- why the last attempt failed
    attempts int NOT NULL DEFAULT 1,           -- how often it failed
    -- how often in a row another transaction held a row that it needs: no failure, `attempts` does not count it
    waits int NOT NULL DEFAULT 0,
    retry_at timestamptz NOT NULL,             -- when it is tried again
    created_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it failed first
    task_ids bigint[] NOT NULL DEFAULT '{}',   -- the tasks it is about: their owners see why nothing happens
    UNIQUE (consumer, event_id)
);
CREATE INDEX deferred_messages_due ON deferred_messages (retry_at);
CREATE INDEX deferred_messages_tasks ON deferred_messages USING gin (task_ids) WHERE task_ids <> '{}';

-- Messages that cannot be handled at all, until an operator sends them again (`orrery bus replay`).
CREATE TABLE parked_messages (
    parked_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number, by which it is replayed
    event_id bigint,                           -- of the event; NULL: the message says none
    consumer text NOT NULL,                    -- the queue whose handler gave up
    routing_key text NOT NULL,                 -- of the event
    body text NOT NULL,                        -- the message as it came
    reason text NOT NULL,                      -- why it cannot be handled
    task_id bigint,                            -- the task it is about, if it is about one
    task_ids bigint[] NOT NULL DEFAULT '{}',   -- the tasks it is about: their owners see why nothing happens
    parked_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    replayed_at timestamptz,                   -- when it was sent again; NULL: it waits
    replayed_by text                           -- who sent it again
);
CREATE INDEX parked_messages_open ON parked_messages (parked_id) WHERE replayed_at IS NULL;
CREATE INDEX parked_messages_replayed ON parked_messages (replayed_at) WHERE replayed_at IS NOT NULL;
CREATE INDEX parked_messages_tasks ON parked_messages USING gin (task_ids)
    WHERE task_ids <> '{}' AND replayed_at IS NULL;

-- What waits in the queues of the bus, as those who consume them counted it some seconds ago: one row for each queue.
CREATE TABLE bus_queues (
    consumer text PRIMARY KEY,                 -- whose queue it is: service and event
    n_waiting bigint NOT NULL,                 -- messages that nobody has yet
    n_consumers bigint NOT NULL,               -- replicas that take from it
    waiting_since timestamptz,                 -- since when it was never seen empty; NULL: it is
    looked_at timestamptz NOT NULL             -- when it was counted
);
