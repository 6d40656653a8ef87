-- What a chunk held of each dataset when it was offered: [{"dataset_id", "n_files", "n_bytes", "n_events"}]. Its files
-- leave it when it is used or returned, and whoever asks later how it was placed still has to know. NULL: an older one.
ALTER TABLE chunks ADD COLUMN inputs jsonb;

UPDATE chunks SET inputs = held.inputs
FROM (SELECT chunk_id,
             jsonb_agg(jsonb_build_object('dataset_id', dataset_id, 'n_files', n_files, 'n_bytes', n_bytes,
                                          'n_events', n_events) ORDER BY dataset_id) AS inputs
      FROM (SELECT chunk_id, dataset_id, count(*) AS n_files, sum(n_bytes) AS n_bytes,
                   sum(n_events) AS n_events
            FROM (SELECT chunk_id, dataset_id, lfn, coalesce(max(fsize), 0) AS n_bytes,
                         coalesce(sum(n_events), 0) AS n_events
                  FROM task_files WHERE chunk_id IS NOT NULL AND status = 'picked'
                  GROUP BY chunk_id, dataset_id, lfn) whole_files
            GROUP BY chunk_id, dataset_id) of_datasets
      GROUP BY chunk_id) held
WHERE chunks.chunk_id = held.chunk_id AND chunks.status = 'offered';
