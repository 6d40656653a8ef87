"""Judge a task by its first jobs (JEDI: Using scout jobs).

============  =================================================================================
`verdicts`    whether the task may go on: whether enough scouts succeeded, and what they measured
`scouting`    carries a verdict out: what was measured is written into the task, and it goes on or ends
`checks`      what they measured that the task's definition does not expect
`reports`     what one job reported; `texts` what was measured beside what was stated, in words
`sizes`       what they say about the size of later jobs, and of merge jobs
`parameters`  the limits that a task must keep
============  =================================================================================
"""
