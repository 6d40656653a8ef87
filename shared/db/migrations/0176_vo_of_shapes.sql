-- The VO is part of what a pilot must offer: jobs of two VOs are never in one lane. '' is no VO: for every pilot.
ALTER TABLE requirement_shapes ADD COLUMN vo text NOT NULL DEFAULT '';
ALTER TABLE requirement_shapes DROP CONSTRAINT requirement_shapes_are_one;
ALTER TABLE requirement_shapes ADD CONSTRAINT requirement_shapes_are_one
    UNIQUE (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s, is_urgent, vo);

-- jobs that wait or run get the shape of their task's VO
INSERT INTO requirement_shapes
       (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s, is_urgent, vo)
SELECT DISTINCT s.prod_source_label, s.resource_type, s.core_count, s.ram_mb, s.disk_mb, s.walltime_s, s.is_urgent, t.vo
  FROM jobs j JOIN requirement_shapes s USING (shape_id) JOIN tasks t ON t.task_id = j.task_id
 WHERE coalesce(t.vo, '') <> '';
UPDATE jobs j SET shape_id = own.shape_id
  FROM requirement_shapes s, tasks t, requirement_shapes own
 WHERE s.shape_id = j.shape_id AND t.task_id = j.task_id AND own.vo = t.vo AND t.vo <> ''
   AND (own.prod_source_label, own.resource_type, own.core_count, own.ram_mb, own.disk_mb, own.walltime_s, own.is_urgent)
       = (s.prod_source_label, s.resource_type, s.core_count, s.ram_mb, s.disk_mb, s.walltime_s, s.is_urgent);
