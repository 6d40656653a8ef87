-- What people keep for the payloads of their tasks in one VO, encrypted with the key of this id. What is for_pilots goes
-- to the pilots of a queue that names its owner (PILOT_SECRETS).
-- Values that were kept in plain text are of no VO, and nobody but their owners can say of which: they are dropped.
DO $$
DECLARE n bigint;
BEGIN
    SELECT count(*) INTO n FROM user_secrets;
    IF n > 0 THEN
        RAISE NOTICE '% secrets in plain text are dropped: their owners give them again, for a VO', n;
    END IF;
END $$;
DROP TABLE user_secrets;
CREATE TABLE user_secrets (
    owner text NOT NULL,
    vo text NOT NULL,
    key text NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    for_pilots boolean NOT NULL DEFAULT false,
    changed_at timestamptz NOT NULL DEFAULT orrery_now(),
    PRIMARY KEY (owner, vo, key)
);
