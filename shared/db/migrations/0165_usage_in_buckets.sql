-- Usage by share, VO, working group and user in buckets of time, folded from job events. A bucket holds the changes of
-- the level of use inside it, and what these changes use up to its end.
CREATE TABLE usage_buckets (
    ends_at timestamptz NOT NULL,
    gshare text NOT NULL,
    vo text NOT NULL,
    working_group text NOT NULL,
    user_name text NOT NULL,
    cores bigint NOT NULL,
    hs06 double precision NOT NULL,
    core_s double precision NOT NULL,
    hs06_s double precision NOT NULL,
    PRIMARY KEY (ends_at, gshare, vo, working_group, user_name)
);

-- The level of use with which the oldest bucket begins.
CREATE TABLE usage_levels (
    gshare text NOT NULL,
    vo text NOT NULL,
    working_group text NOT NULL,
    user_name text NOT NULL,
    cores bigint NOT NULL,
    hs06 double precision NOT NULL,
    PRIMARY KEY (gshare, vo, working_group, user_name)
);

-- Samples were taken once a minute, and usage_history is read no more: each is a minute of its cores, of the power that a core has where none is known.
INSERT INTO usage_buckets
SELECT date_bin('300 seconds', at, 'epoch') + interval '300 seconds', gshare, '', '', user_name, 0, 0,
       sum(running_cores) * 60, sum(running_cores) * 600
  FROM usage_history GROUP BY 1, gshare, user_name;

-- One section ShareCorrections in the place of a parameter for each of its parts.
INSERT INTO parameters (app, component, key, vo, value, type, changed_by)
SELECT app, component, 'ShareCorrections', vo,
       jsonb_build_object(
           'ShareCorrectorsToStart',
           coalesce((max(value) FILTER (WHERE key = 'ShareCorrectorsToStart'))::jsonb, '"WMSHistory"'),
           'WMSHistory',
           coalesce((max(value) FILTER (WHERE key = 'WMSHistory'))::jsonb,
                    '{"GroupsInstance": {"MaxGlobalCorrectionFactor": 3,
                                         "WeekSlice": {"TimeSpan": 604800, "Weight": 80, "MaxCorrection": 2},
                                         "HourSlice": {"TimeSpan": 3600, "Weight": 20, "MaxCorrection": 5}}}'))::text,
       'json', 'migration'
  FROM parameters
 WHERE component = 'share_correction' AND key IN ('ShareCorrectorsToStart', 'WMSHistory') AND type = 'json'
 GROUP BY app, component, vo
ON CONFLICT DO NOTHING;
DELETE FROM parameters
 WHERE component = 'share_correction' AND key IN ('ShareCorrectorsToStart', 'WMSHistory', 'USAGE_PERIOD_S');

-- What corrections follow from, kept for a while: for a share user_name is ''.
CREATE TABLE correction_terms (
    gshare text NOT NULL,
    user_name text NOT NULL,
    at timestamptz NOT NULL DEFAULT orrery_now(),
    vo text NOT NULL,
    corrector text NOT NULL,
    instance text NOT NULL,
    target double precision NOT NULL,       -- the part of what is expected among those corrected together, 0 to 1
    factor double precision NOT NULL,
    total double precision NOT NULL,        -- before it is bounded
    max_global double precision NOT NULL,
    terms jsonb NOT NULL,                   -- slice, used (0 to 1), c (bounded), weight, of each slice
    PRIMARY KEY (gshare, user_name, at, corrector, instance)
);
CREATE INDEX correction_terms_at ON correction_terms (at);
