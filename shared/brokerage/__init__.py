"""Pure parts of brokerage for several services: which queues can run work, and why others cannot.

No database, no clock, no random generator: now and the uniform number are arguments. Columns, not objects: one numpy
array for each attribute of a queue, one row for each pseudo-queue (queue, resource type).

===============  ==================================================================================================
`columns`        what does not change between grid loads: one array per attribute of a queue
`load`           what changes with every job: counts by state, pilots, workers
`world`          both, with sites, storages and links: the immutable snapshot that every decision of a cycle shares
`request`        what is to be placed: needs, the input and where its copies are; `request_of_task` from a task's row
`smallest_job`   the smallest job that a task's split rules make of some input
`output_places`  where output is written, where it is kept, and whether it must be moved
`zero_share`     the language of fairsharepolicy: parsed once, checked when a queue is loaded
`software`       releases, containers and hardware against what queues publish
`nuclei`         what the grid says about its nuclei
`estimates`      memory, disk and walltime of one job at each queue
`check`          a check has a number, a tier and the meaning of the two numbers it compares
`filters`        the checks of what a queue is, one small function each; those of job brokerage alone are there
`pipeline`       an ordered tuple of filters; remembers for each queue the first that excluded it
`weights`        running number of a queue, product of factors
`analysis_facts` what analysis knows of users, shares and the task; `classes` of sites and tasks
`usage`          use by users, shares and queues that these facts follow from
`matchmaking`    sites that advertise themselves: ClassAds of site and job; `requirements_text` what these may be
`draw`           weighted choice by one uniform number over candidates sorted by name
`ability`        the checks that every brokerage shares: could this queue ever run the work?
`nucleus`        what is to be placed when a task is given a nucleus
`limits`         numbers that operators may change
`governed_by`    which parameters decide each check; `lifts` what lifts it; `room` whether it still holds
`decision`       the outcome with every number that led to it, and its packed form for storage
`explained`      a stored decision in words; `difference` compares two of them
`policy`         what a brokerage plugin is
===============  ==================================================================================================
"""
