-- Jobs that wait too long since their creation are found by it. The times of a page lie close together and a BRIN index
-- costs a change of state nothing.
CREATE INDEX jobs_created ON jobs USING brin (creation_time) WITH (pages_per_range = 16);
