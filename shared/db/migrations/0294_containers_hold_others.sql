-- A container in itself would be read for ever.
ALTER TABLE catalogue.containers ADD CONSTRAINT containers_hold_others CHECK (container_id <> dataset_id);
