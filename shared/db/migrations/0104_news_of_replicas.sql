-- Which copies of datasets have grown, by the transaction that did it: who waits for a replica is looked at again.
ALTER TABLE catalogue.dataset_replicas ADD COLUMN changed_at timestamptz NOT NULL DEFAULT 'epoch';
ALTER TABLE catalogue.dataset_replicas ADD COLUMN changed_by bigint NOT NULL DEFAULT 0;
ALTER TABLE catalogue.dataset_replicas ALTER COLUMN changed_at SET DEFAULT orrery_now();
ALTER TABLE catalogue.dataset_replicas ALTER COLUMN changed_by SET DEFAULT pg_current_xact_id()::text::bigint;
CREATE INDEX dataset_replicas_changed ON catalogue.dataset_replicas (changed_by);

CREATE FUNCTION catalogue.note_growth() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed_at := orrery_now();
    NEW.changed_by := pg_current_xact_id()::text::bigint;
    RETURN NEW;
END $$;
CREATE TRIGGER dataset_replicas_grew BEFORE UPDATE ON catalogue.dataset_replicas
FOR EACH ROW WHEN (NEW.n_files > OLD.n_files OR (NEW.complete AND NOT OLD.complete))
EXECUTE FUNCTION catalogue.note_growth();

DELETE FROM versions WHERE name = 'replicas';
