"""Cut the input of a chunk into jobs, and place them on its ranked queues.

================  ==============================================================================================
`limits`          what one job may take at one queue; `master_input`, `secondary` what it takes of which dataset
`cutting`         one chunk cut greedily into jobs
`placing`         which of the ranked queues the next jobs go to; `placement` the jobs, and what is left over
`elsewhere`       whether input that was cut for one queue is given to others as well
`middle_names`    the part of an output's name that comes from its input
`ends_of_jobs`    why a job ended where it did
================  ==============================================================================================
"""
