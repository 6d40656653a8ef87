-- name: insert_datasets_of_sites
-- Datasets of chosen sites, with everything else as their template has it.
INSERT INTO task_datasets (dataset_id, dataset_name, container_name, task_id, provenance_id, state, state_check_time,
                           status, type, vo, attributes, stream_name, storage_token, destination, template_id, site, scope)
SELECT new.dataset_id, new.dataset_name, t.container_name, t.task_id, t.provenance_id, 'open', orrery_now(), 'ready',
       new.type, t.vo, t.attributes, t.stream_name, t.storage_token, t.destination, t.dataset_id, new.site, t.scope
  FROM unnest(:dataset_ids::bigint[], :names::text[], :types::text[], :template_ids::bigint[], :sites::text[])
       AS new (dataset_id, dataset_name, type, template_id, site)
  JOIN task_datasets t ON t.dataset_id = new.template_id AND t.task_id = :task_id
 ORDER BY new.dataset_id;
