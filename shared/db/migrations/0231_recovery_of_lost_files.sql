-- Lost outputs are made again from input that was finished; a task that was done is opened again for it.
INSERT INTO allowed_transitions (entity, from_status, to_status) VALUES
    ('task', 'done', 'toretry'), ('file', 'finished', 'ready'), ('file', 'finished', 'lost');
