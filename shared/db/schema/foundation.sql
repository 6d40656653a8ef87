-- What all tables rest on: the record of this schema, the clock, settings of a transaction, partitions by day.

-- Names are found by a part of them with an index. PostgreSQL's own package of extensions has it, and the owner of a
-- database may create it.
CREATE EXTENSION IF NOT EXISTS pg_trgm;

-- The one clock of durable times: the database's, or in simulations the session setting orrery.now.
CREATE FUNCTION orrery_now() RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('orrery.now', true), '')::timestamptz, transaction_timestamp())
$$;

-- What the unit of work says of its transaction (actor, reason, cause): a session setting orrery.<name>.
CREATE FUNCTION orrery_setting(name text, otherwise text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('orrery.' || name, true), ''), otherwise)
$$;

-- Which schema this database has: one row, written in the transaction that made the tables.
CREATE TABLE installed_schema (
    digest text PRIMARY KEY,                   -- of the statements of these files and of the arrows of shared/states
    release text NOT NULL,                     -- the release of Orrery that made it
    installed_at timestamptz NOT NULL DEFAULT orrery_now()   -- when
);

-- Make partitions of a table by day, for so many days from the first; the number made. A timestamp or date that lies
-- outside goes to the table's default partition. `shared.db.partitions` calls it each day and drops what is old.
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
