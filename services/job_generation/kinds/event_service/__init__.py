"""Jobs of a set take ranges of events while they run, and merge the result (JEDI: Event service).

==============  ===============================================================================================
`policy`        pure; `policy.endings`: what ends a job set
`ending`        carries that out; `open_sets` which of its jobs can go on
`making`        jobs of sets; `serving` those that are wanted next; `refused` those that sites did not take
`beside`        who else works on its events
`doors`         what the steps ask; `job` what its jobs differ in; `store` the SQL
==============  ===============================================================================================
"""
