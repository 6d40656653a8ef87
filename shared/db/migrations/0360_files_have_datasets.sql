-- What every new file and every step of a file costs. Nothing here reads the table.

DROP INDEX task_files_lfn;
ALTER INDEX task_files_named RENAME TO task_files_lfn;

-- A look into task_datasets for each file was a third of what new files cost. Files come in batches of a few datasets:
-- one look for each dataset of a statement keeps the same promise. Files never change their dataset, and datasets are
-- never deleted.
CREATE FUNCTION files_have_datasets() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE unknown bigint;
BEGIN
    SELECT n.dataset_id INTO unknown FROM (SELECT DISTINCT dataset_id FROM new_rows) n
     WHERE NOT EXISTS (SELECT FROM task_datasets d WHERE d.dataset_id = n.dataset_id) LIMIT 1;
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'files of dataset % cannot be inserted: there is no such dataset', unknown
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER task_files_have_datasets AFTER INSERT ON task_files
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION files_have_datasets();
ALTER TABLE task_files DROP CONSTRAINT task_files_dataset_id_fkey;
