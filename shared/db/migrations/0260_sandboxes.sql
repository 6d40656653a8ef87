-- Files that people upload for their payloads (archives of a working directory), in parts; payloads fetch them by name.
CREATE TABLE sandboxes (
    sandbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL CHECK (name <> ''),
    user_name text NOT NULL,
    size_bytes bigint NOT NULL DEFAULT 0 CHECK (size_bytes >= 0),
    -- the checksum at the end of a gzip file, by which clients ask whether they have uploaded the same before
    checksum bigint,
    begun_at timestamptz NOT NULL DEFAULT orrery_now(),
    -- set to the day, not to the second: a file that thousands of jobs fetch is written once a day
    used_at timestamptz NOT NULL DEFAULT orrery_now(),
    is_complete boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX sandboxes_name ON sandboxes (name) WHERE is_complete;
CREATE INDEX sandboxes_same ON sandboxes (user_name, size_bytes, checksum);
CREATE INDEX sandboxes_unused ON sandboxes (used_at);

CREATE TABLE sandbox_parts (
    sandbox_id bigint NOT NULL REFERENCES sandboxes ON DELETE CASCADE,
    part integer NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (sandbox_id, part)
);
-- archives are compressed before they come
ALTER TABLE sandbox_parts ALTER COLUMN content SET STORAGE EXTERNAL;
