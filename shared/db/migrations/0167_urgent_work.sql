-- Whether whoever fits takes a job before the order of shares is looked at: one more thing that all jobs of a lane have in
-- common.
ALTER TABLE requirement_shapes ADD COLUMN is_urgent boolean NOT NULL DEFAULT false;
DO $$
DECLARE name text;
BEGIN
    SELECT conname INTO name FROM pg_constraint WHERE conrelid = 'requirement_shapes'::regclass AND contype = 'u';
    EXECUTE format('ALTER TABLE requirement_shapes DROP CONSTRAINT %I', name);
END $$;
ALTER TABLE requirement_shapes ADD CONSTRAINT requirement_shapes_are_one
    UNIQUE (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s, is_urgent);
