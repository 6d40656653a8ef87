-- A task that ended before it had a nucleus is given one when it is retried.
INSERT INTO allowed_transitions (entity, from_status, to_status) VALUES ('task', 'toretry', 'assigning');
