-- Which copy of a cloned job has its outputs in the catalogue: decided before they are registered, once for its job set.
CREATE TABLE stored_copies (
    job_set_id bigint PRIMARY KEY REFERENCES job_sets,
    job_id bigint NOT NULL
);
COMMENT ON TABLE stored_copies IS 'the copy of a cloned job whose outputs are registered';
