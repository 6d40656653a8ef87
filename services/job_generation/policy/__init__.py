"""The functional core of job generation: values in, decisions with reasons out.

No database, clock or random generator.

==================  =========================================================================================
`values`            what tasks, datasets, files and queues look like here; `task_row` reads
                    them; rules are those of `shared.task`
`picking`           how much input the next chunk takes, scouts first
`queue_facts`       what is asked about queues and their parts, taken from the grid
`outcomes`          what an ended job means for its files; `counters` how the counters of its datasets change
`order_facts`       what the order of a job depends on
`memory`            more memory for what ran out of it
`merging`           groups of unmerged outputs
==================  =========================================================================================
"""
