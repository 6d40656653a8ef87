"""Jobs of a set take ranges of events while they run, and merge the result (JEDI: Event service).

==============  ===============================================================================================
`policy`        pure; `policy.endings`: what ends a job set
`ending`        carries that out: what follows for a set when a job of it ends; `open_sets` which of them can go on
`leaving`       jobs leave their set; `merging` merge jobs end; `failing` a set is given up
`making`        jobs of sets; `serving` those that are wanted next; `refused` those that sites did not take
`beside`        who else works on its events
`doors`         what the steps ask; `job` what its jobs differ in; `store` the SQL
==============  ===============================================================================================
"""
