"""The functional core of job generation: values in, decisions with reasons out.

No database, clock or random generator.

`values`            what tasks, datasets, files and queues look like here; rules are those of `shared.task`
`picking`           how much input the next chunk takes, scouts first
`gate_order`        which task goes first at the gate of a share; `fair_share` how much of it a share gets
`throttle`          whether enough is queued already (JEDI: Job throttling)
`limits`            what one job may take at one queue
`kinds`             what differs between kinds of jobs: scouts, merging, builds, pre-processing, event service, jumbo
`build_jobs`        where the library of a user's sources is made, and which jobs wait for it
`event_service`     job sets: their ranges, copies, merge jobs, jumbo jobs, and what the end of a job means for them
`job_xml`           jobs that the user describes one by one; `segments` input that is read in named parts
`splitting`         one chunk cut greedily into jobs
`placing`           which of the ranked queues the next jobs go to
`command_format`    command lines whose plain placeholders are filled in at once
`requirements`      what a pilot must offer
`building`          jobs with names, seeds, requirements and the text that the pilot gets
`outcomes`          what an ended job means for its files
`retry`             rules about errors: which one decides for a failed job, and what it means
`memory`            more memory for what ran out of it
`scouts`            what the scouts measured, and whether enough of them succeeded
`scout_checks`      what they measured that the task's definition does not expect
`scout_texts`       what was measured beside what was stated, in words
`scout_sizes`       what they say about the size of later jobs, and of merge jobs
`merging`           groups of unmerged outputs
`plugin`            what a VO may replace
"""
