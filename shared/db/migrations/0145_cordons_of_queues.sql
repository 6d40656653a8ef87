-- Queues that an operator closed for new work. A grid that is loaded later does not open them.

CREATE TABLE queue_cordons (
    queue text PRIMARY KEY,
    reason text NOT NULL,
    set_by text NOT NULL,
    set_at timestamptz NOT NULL DEFAULT orrery_now()
);

-- Queues as they are to be read: a cordoned one that would take work is brokeroff.
CREATE VIEW queues_in_force AS
SELECT q.queue, c.reason AS cordon_reason, c.set_by AS cordoned_by,
       CASE WHEN c.queue IS NOT NULL AND q.data ->> 'status' IN ('online', 'standby', 'test')
            THEN q.data || '{"status": "brokeroff"}'::jsonb ELSE q.data END AS data
  FROM queues q LEFT JOIN queue_cordons c USING (queue);
