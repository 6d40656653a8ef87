-- How capacity is divided: shares, work queues, and the corrections that follow from usage.

-- The order of shares.
CREATE SEQUENCE share_positions;

-- The tree of shares. A task takes the first leaf that matches it; NULL matches everything.
CREATE TABLE shares (
    gshare text PRIMARY KEY,                   -- its name
    value double precision NOT NULL CHECK (value >= 0),   -- percent of its parent
    parent text REFERENCES shares,             -- NULL: of all capacity
    prod_source_label text,                    -- label of the tasks it is for
    working_group text,                        -- their working group
    campaign text,                             -- their campaign
    processing_type text,                      -- their processing type
    trans_path text,                           -- their transformation
    resource_type text,                        -- the resource type of their jobs
    vo text,                                   -- their VO
    throttled boolean NOT NULL DEFAULT true,   -- whether generation waits while it has enough jobs queued
    stretchable boolean NOT NULL DEFAULT false,   -- goes before its siblings where others do not use what they are due
    correction_factor double precision NOT NULL DEFAULT 1,   -- by which its value is multiplied, from usage
    position bigint NOT NULL DEFAULT nextval('share_positions')   -- the first leaf that matches wins
);
ALTER SEQUENCE share_positions OWNED BY shares.position;

-- Work queues: the kind of work that a task belongs to. Capacity is divided by the tree of shares: what a work queue says
-- of it is kept and has no effect.
CREATE TABLE work_queues (
    queue_id int PRIMARY KEY,                  -- its number
    queue_name varchar(32) NOT NULL,           -- its name
    queue_type varchar(16) NOT NULL,           -- the label of its tasks: managed, user
    vo varchar(16) NOT NULL,                   -- the VO of its tasks
    queue_share double precision,              -- its share; has no effect
    queue_order int UNIQUE,                    -- the first that matches a task wins; NULL: takes no tasks
    criteria text,                             -- an SQL condition over tasks, with names for values
    variables text,                            -- the values of these names
    partition_id int,                          -- -1: it is a partition and takes no tasks; else it has no effect
    stretchable boolean NOT NULL DEFAULT false,   -- whether it may exceed its share; has no effect
    throttled boolean NOT NULL DEFAULT true,   -- whether generation waits while it has enough jobs queued
    status text NOT NULL DEFAULT 'active',     -- active or inactive
    queue_function text                        -- Resource: the queue throttles by itself, not by the share
);

-- Correction factors of users among the users of one share.
CREATE TABLE user_corrections (
    gshare text NOT NULL,                      -- the share
    user_name text NOT NULL,                   -- the user
    correction_factor double precision NOT NULL CHECK (correction_factor > 0),   -- the factor
    corrected_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was worked out
    PRIMARY KEY (gshare, user_name)
);

-- Correction factors of groups of users, and of users in them.
CREATE TABLE group_corrections (
    vo text NOT NULL,                          -- the group's VO
    user_group text NOT NULL,                  -- the group
    user_name text NOT NULL,                   -- a user of it; '': the group itself
    correction_factor double precision NOT NULL CHECK (correction_factor > 0),   -- the factor
    corrected_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was worked out
    PRIMARY KEY (vo, user_group, user_name)
);

-- What corrections follow from, kept for a while: those of a share or of a group of a VO; the other name is ''.
CREATE TABLE correction_terms (
    gshare text NOT NULL,                      -- the share
    user_group text NOT NULL DEFAULT '',       -- the group of users
    user_name text NOT NULL,                   -- a user of it; '': the share or group itself
    vo text NOT NULL,                          -- the VO
    at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was worked out
    corrector text NOT NULL,                   -- by which corrector
    instance text NOT NULL,                    -- by which instance of its configuration
    target double precision NOT NULL,          -- the part of what is expected among those corrected together, 0 to 1
    factor double precision NOT NULL,          -- the factor that came out
    total double precision NOT NULL,           -- before it is bounded
    max_global double precision NOT NULL,      -- by which it is bounded
    terms jsonb NOT NULL,                      -- slice, used (0 to 1), c (bounded), weight, of each slice
    PRIMARY KEY (gshare, user_name, at, user_group, vo, corrector, instance)
);
CREATE INDEX correction_terms_at ON correction_terms (at);

-- Usage in buckets of time, folded from job events. A bucket holds the changes of the level of use inside it, and what
-- these changes use up to its end.
CREATE TABLE usage_buckets (
    ends_at timestamptz NOT NULL,              -- the bucket's end
    gshare text NOT NULL,                      -- usage of this share
    vo text NOT NULL,                          -- of this VO
    working_group text NOT NULL,               -- of this working group
    user_name text NOT NULL,                   -- of this user
    cores bigint NOT NULL,                     -- by how much the cores in use changed
    hs06 double precision NOT NULL,            -- by how much their power changed
    core_s double precision NOT NULL,          -- core seconds that these changes used up to the end
    hs06_s double precision NOT NULL,          -- HS06 seconds that these changes used up to the end
    PRIMARY KEY (ends_at, gshare, vo, working_group, user_name)
);

-- The level of use with which the oldest bucket begins.
CREATE TABLE usage_levels (
    gshare text NOT NULL,                      -- usage of this share
    vo text NOT NULL,                          -- of this VO
    working_group text NOT NULL,               -- of this working group
    user_name text NOT NULL,                   -- of this user
    cores bigint NOT NULL,                     -- cores in use
    hs06 double precision NOT NULL,            -- their power
    PRIMARY KEY (gshare, vo, working_group, user_name)
);

-- Raise the version of what decides the class of a task: shares but for their factors, resource types, work queues.
CREATE FUNCTION raise_version_of_classes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE versions SET version = version + 1, changed_at = orrery_now() WHERE name = 'classes';
    RETURN NULL;
END $$;
CREATE TRIGGER shares_class AFTER INSERT OR DELETE OR UPDATE OF gshare, parent, prod_source_label, working_group, campaign,
    processing_type, trans_path, resource_type, vo, position ON shares
    FOR EACH STATEMENT EXECUTE FUNCTION raise_version_of_classes();
CREATE TRIGGER work_queues_class AFTER INSERT OR DELETE OR UPDATE ON work_queues
    FOR EACH STATEMENT EXECUTE FUNCTION raise_version_of_classes();
CREATE TRIGGER resource_types_class AFTER INSERT OR DELETE OR UPDATE ON resource_types
    FOR EACH STATEMENT EXECUTE FUNCTION raise_version_of_classes();
