-- The VO that a worker's first reporter acted for: who acts for another one says nothing of it. '' where it was several.
ALTER TABLE workers ADD COLUMN vo text NOT NULL DEFAULT '';
