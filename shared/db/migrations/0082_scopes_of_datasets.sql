-- The scope that a dataset's name was given with, or has in the catalogue: what its jobs tell their pilots. Rows from
-- before have none; for them the name decides, as it did.
ALTER TABLE task_datasets ADD COLUMN scope varchar(30);
