-- A series of tasks goes by what the newest token of its submitter said, not by that of its submission alone.
ALTER TABLE periodic_tasks ADD COLUMN submitter text GENERATED ALWAYS AS (caller ->> 'name') STORED;
ALTER TABLE periodic_tasks ADD COLUMN source text;      -- whose token: an issuer, certificates, '' our own; NULL: not known
ALTER TABLE periodic_tasks ADD COLUMN seen jsonb;       -- what the newest token said; NULL: that of the submission
ALTER TABLE periodic_tasks ADD COLUMN seen_at timestamptz NOT NULL DEFAULT orrery_now();
CREATE INDEX periodic_tasks_submitter ON periodic_tasks (submitter) WHERE status <> 'ended';
CREATE INDEX periodic_tasks_seen ON periodic_tasks (seen_at) WHERE status = 'active';
