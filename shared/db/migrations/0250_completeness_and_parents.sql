-- How much of a task's input is processed, in per mille: by events where those of every master input are known, else by
-- files. The one count for goals, for conditions of termination and for final statuses.
CREATE FUNCTION orrery_completeness(
    of_task bigint, OUT n_files bigint, OUT n_files_finished bigint, OUT files_permille double precision,
    OUT permille double precision
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    n_events bigint;
    n_events_finished bigint;
BEGIN
    SELECT coalesce(sum(d.n_files), 0), coalesce(sum(d.n_files_finished), 0),
           CASE WHEN bool_and(d.n_events IS NOT NULL) THEN sum(d.n_events) END
      INTO n_files, n_files_finished, n_events
      FROM task_datasets d
     WHERE d.task_id = of_task AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.master_id IS NULL;
    files_permille := CASE WHEN n_files > 0 THEN 1000.0 * n_files_finished / n_files ELSE 1000 END;
    permille := files_permille;
    IF n_events > 0 AND n_files_finished > 0 AND n_files_finished < n_files THEN
        SELECT coalesce(sum(f.n_events), 0) INTO n_events_finished
          FROM task_datasets d JOIN task_files f USING (dataset_id)
         WHERE d.task_id = of_task AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.master_id IS NULL
           AND f.status = 'finished';
        permille := 1000.0 * n_events_finished / n_events;
    END IF;
END $$;

-- A task without a parent names itself (JEDI: PARENT_TID).
UPDATE tasks SET parent_tid = task_id WHERE parent_tid IS NULL;

-- A task that waits for a nucleus for too long is exhausted, as one that is pending.
INSERT INTO allowed_transitions (entity, from_status, to_status) VALUES ('task', 'assigning', 'exhausted');

COMMENT ON COLUMN tasks.assessment_time IS 'when progress and failure rate were last worked out anew';
COMMENT ON COLUMN tasks.rescue_time IS 'when the sweep of the watchdog last found the task without progress';
COMMENT ON COLUMN tasks.term_condition IS 'ends the task: "90% of files" or "90% of events" were processed';
