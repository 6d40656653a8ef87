-- Whatever a unit of input was that no job has: the catalogue may say that it has no copy, is gone or is corrupted.
INSERT INTO allowed_transitions (entity, from_status, to_status) VALUES
    ('file', 'ready', 'pending'), ('file', 'ready', 'staging'), ('file', 'pending', 'staging'),
    ('file', 'staging', 'pending'), ('file', 'missing', 'pending'), ('file', 'missing', 'staging'),
    ('file', 'lost', 'pending'), ('file', 'lost', 'staging'), ('file', 'lost', 'broken');
