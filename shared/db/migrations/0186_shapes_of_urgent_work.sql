-- The first read of a queue asks which of its shares have urgent work: by this index, however many shapes there are.
CREATE INDEX requirement_shapes_urgent ON requirement_shapes (shape_id) WHERE is_urgent;
