-- Files that people upload for their payloads (archives of a working directory), in parts; payloads fetch them by name.

-- Names are their owner's: nobody finds out by uploading, or takes away, a name of somebody else.
CREATE TABLE sandboxes (
    sandbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    name text NOT NULL CHECK (name <> ''),     -- its name
    user_name text NOT NULL,                   -- whose it is
    vo text,                                   -- for which VO, where the uploader acts for one
    size_bytes bigint NOT NULL DEFAULT 0 CHECK (size_bytes >= 0),   -- its size
    reserved_bytes bigint NOT NULL DEFAULT 0,  -- what an upload on its way may take
    -- the checksum at the end of a gzip file, by which clients ask whether they have uploaded the same before
    checksum bigint,
    begun_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when the upload began
    -- set to the day, not to the second: a file that thousands of jobs fetch is written once a day
    used_at timestamptz NOT NULL DEFAULT orrery_now(),
    is_complete boolean NOT NULL DEFAULT false -- whether all parts are there
);
CREATE UNIQUE INDEX sandboxes_of_owners ON sandboxes (name, user_name) WHERE is_complete;
CREATE INDEX sandboxes_same ON sandboxes (user_name, size_bytes, checksum);
CREATE INDEX sandboxes_unused ON sandboxes (used_at);

-- The contents of sandboxes.
CREATE TABLE sandbox_parts (
    sandbox_id bigint NOT NULL REFERENCES sandboxes ON DELETE CASCADE,   -- the sandbox
    part integer NOT NULL,                     -- the place of the part
    content bytea NOT NULL,                    -- the part
    PRIMARY KEY (sandbox_id, part)
);
-- archives are compressed before they come
ALTER TABLE sandbox_parts ALTER COLUMN content SET STORAGE EXTERNAL;
