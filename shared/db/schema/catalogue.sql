-- The built-in catalogue, in a schema of its own: datasets with their files and where copies are, and whose names are.

CREATE SCHEMA catalogue;

-- The scope that says whose a name is: its first field, of user and group data the first two. Unmerged output has that
-- of the final one. As `shared.model.names.owning_scope`.
CREATE FUNCTION catalogue.owning_scope(name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN n LIKE 'user.%' OR n LIKE 'group.%' THEN split_part(n, '.', 1) || '.' || split_part(n, '.', 2)
                ELSE split_part(n, '.', 1) END
      FROM regexp_replace(name, '^(panda\.um\.)+', '') AS n
$$;

-- Datasets, and containers of datasets.
CREATE TABLE catalogue.datasets (
    dataset_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its id
    scope text NOT NULL,                       -- its scope
    name text NOT NULL UNIQUE,                 -- its name
    owning_scope text NOT NULL GENERATED ALWAYS AS (catalogue.owning_scope(name)) STORED,   -- says whose it is
    kind text NOT NULL CHECK (kind IN ('dataset', 'container')),   -- what it is
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'frozen')),   -- whether files may come
    n_files bigint NOT NULL DEFAULT 0,         -- files
    n_bytes bigint NOT NULL DEFAULT 0,         -- bytes of theirs
    n_events bigint NOT NULL DEFAULT 0,        -- events of theirs
    attributes jsonb NOT NULL DEFAULT '{}',    -- what else is said of it
    created_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    contents_version bigint NOT NULL DEFAULT 1,   -- of files and copies: what did not change need not be compared
    attempts_version bigint,                   -- the contents whose older attempts are known
    vo text,                                   -- whose catalogue outside has it, too; NULL: it is in this one alone
    expires_at timestamptz,                    -- until when it is kept, as nobody needs it; NULL: it is needed
    readable_by_all boolean NOT NULL DEFAULT false   -- opened for all VOs
);
-- Datasets by a part of their name.
CREATE INDEX datasets_name_parts ON catalogue.datasets USING gin (name gin_trgm_ops);
CREATE INDEX datasets_expire ON catalogue.datasets (expires_at) WHERE expires_at IS NOT NULL;

-- The datasets of containers.
CREATE TABLE catalogue.containers (
    container_id bigint NOT NULL REFERENCES catalogue.datasets,   -- the container
    dataset_id bigint NOT NULL REFERENCES catalogue.datasets,     -- a dataset of it
    position int NOT NULL,                     -- in this order
    PRIMARY KEY (container_id, dataset_id),
    -- a container in itself would be read for ever
    CONSTRAINT containers_hold_others CHECK (container_id <> dataset_id)
);

-- The files of datasets.
CREATE TABLE catalogue.files (
    file_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its id
    dataset_id bigint NOT NULL REFERENCES catalogue.datasets,  -- its dataset
    scope text NOT NULL,                       -- its scope
    lfn text NOT NULL,                         -- its name
    size_bytes bigint NOT NULL CHECK (size_bytes >= 0),   -- its size
    n_events bigint CHECK (n_events >= 0),     -- its events; NULL: not known
    checksum text,                             -- adler32 or MD5, with the prefix of the field
    guid text,                                 -- its GUID
    lumi_block bigint,                         -- its luminosity block
    first_event bigint,                        -- the number of its first event
    is_corrupted boolean NOT NULL DEFAULT false,   -- all copies are known to be bad
    UNIQUE (dataset_id, lfn)
);
CREATE INDEX files_lfn ON catalogue.files (lfn, scope);
CREATE INDEX files_in_order ON catalogue.files (dataset_id, file_id);
CREATE INDEX files_by_block ON catalogue.files (dataset_id, lumi_block, file_id) WHERE lumi_block IS NOT NULL;

-- Files of a dataset whose names differ in their last number only are attempts of one file, and the newest one is
-- input. Here are the others.
CREATE TABLE catalogue.older_files (
    file_id bigint PRIMARY KEY REFERENCES catalogue.files ON DELETE CASCADE,   -- the file
    dataset_id bigint NOT NULL REFERENCES catalogue.datasets ON DELETE CASCADE   -- its dataset
);
CREATE INDEX older_files_dataset ON catalogue.older_files (dataset_id);

-- Names of a dataset of a catalogue outside that is read once more because files of it are gone.
CREATE UNLOGGED TABLE catalogue.seen_files (
    request_id bigint NOT NULL,                -- the request that reads it
    lfn text NOT NULL,                         -- a name that was seen
    PRIMARY KEY (request_id, lfn)
);

-- Copies of datasets at storages.
CREATE TABLE catalogue.dataset_replicas (
    dataset_id bigint NOT NULL REFERENCES catalogue.datasets,   -- the dataset
    storage text NOT NULL,                     -- the storage
    n_files bigint NOT NULL,                   -- files that are there
    n_bytes bigint NOT NULL,                   -- bytes of theirs
    complete boolean NOT NULL,                 -- whether all are
    changed_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it last grew
    -- the transaction that it last grew in: who waits for a replica looks again at what came since
    changed_by bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    PRIMARY KEY (dataset_id, storage)
);
CREATE INDEX dataset_replicas_changed ON catalogue.dataset_replicas (changed_by);

-- Which files incomplete copies have: a complete one needs no rows.
CREATE TABLE catalogue.file_replicas (
    file_id bigint NOT NULL REFERENCES catalogue.files,   -- the file
    storage text NOT NULL,                     -- the storage
    PRIMARY KEY (file_id, storage)
);

-- Copies that were brought for the jobs of one task, of input that is not used many times: they go when it has ended,
-- or when their time is over. The copies themselves are in file_replicas; of a copy without a row here nothing is
-- deleted.
CREATE TABLE catalogue.brought_copies (
    file_id bigint NOT NULL,                   -- the file
    storage text NOT NULL,                     -- the storage
    task_id bigint NOT NULL,                   -- the task
    request_id bigint,                         -- of the rule in a catalogue outside that brought them
    expires_at timestamptz NOT NULL,           -- until when it is kept
    PRIMARY KEY (file_id, storage)
);
CREATE INDEX brought_copies_of_task ON catalogue.brought_copies (task_id, file_id);
CREATE INDEX brought_copies_expire ON catalogue.brought_copies (expires_at);
CREATE INDEX brought_copies_of_request ON catalogue.brought_copies (request_id) WHERE request_id IS NOT NULL;

-- Whole copies of datasets that somebody wanted at a storage.
CREATE TABLE catalogue.rules (
    rule_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    dataset_id bigint NOT NULL REFERENCES catalogue.datasets,  -- the dataset
    storage text NOT NULL,                     -- the storage
    activity text NOT NULL,                    -- for what
    comment text NOT NULL DEFAULT '',          -- what was said of it
    created_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    expires_at timestamptz,                    -- until when; NULL: for ever
    UNIQUE (dataset_id, storage)
);

-- To whom scopes belong.
CREATE TABLE catalogue.scopes (
    scope text PRIMARY KEY,                    -- the owning scope of names
    vo text NOT NULL,                          -- the VO it belongs to; '': to none, everybody may read
    owner text NOT NULL DEFAULT '',            -- the person, where it is a user's
    claimed_by text NOT NULL,                  -- who used it first
    claimed_at timestamptz NOT NULL DEFAULT orrery_now()   -- when
);

-- Writes that were refused, for those to whom the scope belongs: the last one of each caller and kind, and how many.
CREATE TABLE catalogue.refused_writes (
    scope text NOT NULL,                       -- the scope
    caller text NOT NULL,                      -- who wanted to write
    verb text NOT NULL,                        -- what was to be done
    dataset text NOT NULL,                     -- with which dataset, the last time
    cause text NOT NULL,                       -- why it was refused
    n_times bigint NOT NULL DEFAULT 1,         -- how often
    first_at timestamptz NOT NULL DEFAULT orrery_now(),   -- since when
    last_at timestamptz NOT NULL DEFAULT orrery_now(),    -- until when
    PRIMARY KEY (scope, caller, verb)
);

-- Whether tasks of a VO may read a dataset: it is of that VO or of none, or opened for all.
CREATE FUNCTION catalogue.may_be_read(d catalogue.datasets, reading_vo text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT d.readable_by_all
        OR coalesce(d.vo, (SELECT s.vo FROM catalogue.scopes s WHERE s.scope = d.owning_scope), '') IN ('', reading_vo)
$$;

-- Which copies of datasets have grown, by the transaction that did it: who waits for a replica is looked at again.
CREATE FUNCTION catalogue.note_growth() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed_at := orrery_now();
    NEW.changed_by := pg_current_xact_id()::text::bigint;
    RETURN NEW;
END $$;
CREATE TRIGGER dataset_replicas_grew BEFORE UPDATE ON catalogue.dataset_replicas
FOR EACH ROW WHEN (NEW.n_files > OLD.n_files OR (NEW.complete AND NOT OLD.complete))
EXECUTE FUNCTION catalogue.note_growth();

-- A dataset has new contents with each change of its files and copies.
CREATE FUNCTION catalogue.note_contents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE catalogue.datasets SET contents_version = contents_version + 1
     WHERE dataset_id IN (SELECT dataset_id FROM changed);
    RETURN NULL;
END $$;
CREATE TRIGGER files_added AFTER INSERT ON catalogue.files REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();
CREATE TRIGGER files_changed AFTER UPDATE ON catalogue.files REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();
CREATE TRIGGER files_removed AFTER DELETE ON catalogue.files REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();
CREATE TRIGGER copies_added AFTER INSERT ON catalogue.dataset_replicas REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();
CREATE TRIGGER copies_changed AFTER UPDATE ON catalogue.dataset_replicas REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();
CREATE TRIGGER copies_removed AFTER DELETE ON catalogue.dataset_replicas REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();
