-- name: work_of_nuclei
-- Work that is left for each nucleus.
SELECT nucleus, sum(hs06_s)::float8 AS hs06_s FROM nucleus_remaining_work GROUP BY nucleus;
