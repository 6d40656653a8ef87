-- The clock, and the tables that carry messages between services.

-- The one clock of durable times: the database's, or in simulations the session setting orrery.now.
CREATE FUNCTION orrery_now() RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('orrery.now', true), '')::timestamptz, transaction_timestamp())
$$;

CREATE FUNCTION orrery_setting(name text, otherwise text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('orrery.' || name, true), ''), otherwise)
$$;

-- One partition per day for tables partitioned by a timestamp or date; rows outside go to the default partition.
CREATE FUNCTION ensure_day_partitions(parent text, first_day date, days int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE made int := 0; day date; child text;
BEGIN
    FOR offset_days IN 0 .. days - 1 LOOP
        day := first_day + offset_days;
        child := parent || '_' || to_char(day, 'YYYYMMDD');
        IF to_regclass(child) IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', child, parent, day, day + 1);
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;
END $$;

CREATE SEQUENCE event_ids;

CREATE TABLE outbox (
    event_id bigint PRIMARY KEY DEFAULT nextval('event_ids'),
    routing_key text NOT NULL,
    body text NOT NULL,
    producer text NOT NULL,
    trace_parent text,
    created_at timestamptz NOT NULL DEFAULT orrery_now()
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE inbox (
    event_day date NOT NULL,
    consumer text NOT NULL,
    event_id bigint NOT NULL,
    handled_at timestamptz NOT NULL DEFAULT orrery_now(),
    PRIMARY KEY (event_day, consumer, event_id)
) PARTITION BY RANGE (event_day);
CREATE TABLE inbox_default PARTITION OF inbox DEFAULT;

CREATE TABLE deferred_messages (
    deferred_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id bigint NOT NULL,
    consumer text NOT NULL,
    routing_key text NOT NULL,
    body text NOT NULL,
    reason text NOT NULL,
    attempts int NOT NULL DEFAULT 1,
    retry_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT orrery_now(),
    UNIQUE (consumer, event_id)
);
CREATE INDEX deferred_messages_due ON deferred_messages (retry_at);

CREATE TABLE parked_messages (
    parked_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id bigint,
    consumer text NOT NULL,
    routing_key text NOT NULL,
    body text NOT NULL,
    reason text NOT NULL,
    task_id bigint,
    parked_at timestamptz NOT NULL DEFAULT orrery_now(),
    replayed_at timestamptz,
    replayed_by text
);
CREATE INDEX parked_messages_open ON parked_messages (parked_id) WHERE replayed_at IS NULL;

CREATE TABLE leases (
    name text NOT NULL,
    partition text NOT NULL DEFAULT '',
    holder text NOT NULL,
    term bigint NOT NULL,
    acquired_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (name, partition)
);

CREATE TABLE versions (
    name text PRIMARY KEY,
    version bigint NOT NULL DEFAULT 1,
    changed_at timestamptz NOT NULL DEFAULT orrery_now()
);
INSERT INTO versions (name) VALUES ('config'), ('grid'), ('shares');

CREATE TABLE parameters (
    app text NOT NULL DEFAULT 'jedi',
    component text NOT NULL,
    key text NOT NULL,
    vo text NOT NULL DEFAULT '',
    value text NOT NULL,
    type text NOT NULL CHECK (type IN ('str', 'int', 'float', 'bool', 'json')),
    description text NOT NULL DEFAULT '',
    changed_at timestamptz NOT NULL DEFAULT orrery_now(),
    changed_by text NOT NULL DEFAULT '',
    PRIMARY KEY (app, component, key, vo)
);

CREATE TABLE audit_log (
    audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT orrery_now(),
    caller text NOT NULL,
    roles text[] NOT NULL DEFAULT '{}',
    verb text NOT NULL,
    target text NOT NULL,
    outcome text NOT NULL,
    details jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_log_target ON audit_log (target, at);
