-- Whole copies of datasets that somebody wanted at a storage.
CREATE TABLE catalogue.rules (
    rule_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset_id bigint NOT NULL REFERENCES catalogue.datasets,
    storage text NOT NULL,
    activity text NOT NULL,
    comment text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT orrery_now(),
    expires_at timestamptz,
    UNIQUE (dataset_id, storage)
);
