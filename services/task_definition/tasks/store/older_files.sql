-- name: know
-- Files of a dataset that have newer attempts, noted once for each version of its contents; whether they are known now.
-- Attempts of a file end with different numbers, or one has none. So with the number that most files end with, only
-- files are compared that end with another one, or with none although a file of their name and that number is there.
-- Who changes the contents meanwhile gives them another version. Indexes files_in_order, files_dataset_id_lfn_key,
-- older_files_dataset.
WITH stale AS MATERIALIZED (
        SELECT dataset_id, contents_version, coalesce(n_files <= :at_most::bigint, true) AS is_small
          FROM catalogue.datasets
         WHERE dataset_id = :catalogue_id AND attempts_version IS DISTINCT FROM contents_version),
     named AS MATERIALIZED (
        SELECT f.file_id, f.lfn, CASE WHEN strpos(f.lfn, '.') > 0 THEN split_part(f.lfn, '.', -1) ELSE '' END AS ending
          FROM stale s JOIN catalogue.files f USING (dataset_id) WHERE s.is_small),
     endings AS MATERIALIZED (
        SELECT ending, count(*) AS n, ending ~ '^[0-9]+$' AS is_number FROM named GROUP BY ending),
     usual AS MATERIALIZED (
        SELECT ending FROM endings WHERE is_number ORDER BY n DESC, ending LIMIT 1),
     others AS MATERIALIZED (
        SELECT n.file_id, left(n.lfn, -length(n.ending) - 1) AS base, n.ending::numeric AS attempt
          FROM usual u JOIN endings e ON e.is_number AND e.ending <> u.ending JOIN named n ON n.ending = e.ending),
     bases AS (
        SELECT base FROM others
         UNION
        SELECT n.lfn FROM usual u JOIN endings e ON NOT e.is_number JOIN named n ON n.ending = e.ending
          JOIN catalogue.files f ON f.dataset_id = :catalogue_id AND f.lfn = n.lfn || '.' || u.ending),
     attempts AS (
        SELECT base, file_id, attempt FROM others
         UNION ALL
        SELECT b.base, f.file_id, u.ending::numeric FROM usual u CROSS JOIN bases b
          JOIN catalogue.files f ON f.dataset_id = :catalogue_id AND f.lfn = b.base || '.' || u.ending
         UNION ALL
        SELECT b.base, f.file_id, -1 FROM bases b JOIN catalogue.files f ON f.dataset_id = :catalogue_id AND f.lfn = b.base
         WHERE NOT split_part(b.base, '.', -1) ~ '^[0-9]+$' OR strpos(b.base, '.') = 0),
     older AS MATERIALIZED (
        SELECT file_id FROM (SELECT file_id, row_number() OVER (PARTITION BY base ORDER BY attempt DESC, file_id) AS place
                               FROM attempts) a WHERE place > 1),
     added AS (
        INSERT INTO catalogue.older_files (file_id, dataset_id)
        SELECT file_id, :catalogue_id FROM older ORDER BY file_id ON CONFLICT DO NOTHING),
     removed AS (
        DELETE FROM catalogue.older_files o USING stale s
         WHERE s.is_small AND o.dataset_id = s.dataset_id AND o.file_id NOT IN (SELECT file_id FROM older)),
     noted AS (
        UPDATE catalogue.datasets d SET attempts_version = s.contents_version
          FROM stale s WHERE s.is_small AND d.dataset_id = s.dataset_id)
SELECT coalesce((SELECT is_small FROM stale), true);
