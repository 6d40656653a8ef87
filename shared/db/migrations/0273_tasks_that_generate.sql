-- Tasks of a share and resource type that may make jobs, the most urgent first: asked when the share has enough queued.
CREATE INDEX tasks_generating ON tasks (gshare, resource_type, current_priority DESC)
    WHERE status IN ('ready', 'scouting', 'running');
