"""Judge a task by its first jobs (JEDI: Using scout jobs).

============  =================================================================================
`scouting`    what the scouts measured, and whether the task may go on
`verdicts`    whether enough of them succeeded, and what they measured
`checks`      what they measured that the task's definition does not expect
`reports`     what one job reported; `texts` what was measured beside what was stated, in words
`sizes`       what they say about the size of later jobs, and of merge jobs
`parameters`  the limits that a task must keep
============  =================================================================================
"""
