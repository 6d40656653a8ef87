-- A lost job of the event service that processed some of its events waits for their merge.
INSERT INTO allowed_transitions (entity, from_status, to_status) VALUES
    ('job', 'sent', 'merging'), ('job', 'starting', 'merging'), ('job', 'running', 'merging');
