"""Jobs to pilots: windows of waiting jobs in memory, picks from them, claims in the database.

===================  ==============================================================================================
`claims`             an acquire to its job: what it needs is read, then it waits for its claim
`batches`            picks for what waits, claims it together, answers when it is committed
`waiting`            requests that wait for a job: their order, and their answers
`due_calls`          the end of their time: one timer for all of them
`picks`              the job that a request tries next; Requirements of its site must hold
`windows`            the heads of lanes in memory, of each queue that is in use
`queue_reads`        the read of a queue from its start; `refills` read on; `lane_reader` has the statements
`lane_facts`         what lanes have beside their queue: `shapes` and order keys
`task_queues`        which task queues fit a kind of pilot; `task_queue_orders` their priorities, by `order_rules`
`site_limits`        running limits and delays of sites as a process knows them; `site_permits` for all dispatchers
`site_requirements`  what sites and jobs require of each other, asked once more at the acquire (SAM-Grid)
`sessions`           connections that only claim; `identity` of the process, for keys of its own
`ordered_texts`      specifications that show the share and priority which jobs have now
`job_secrets`        what goes with a job beside its text
`no_match`           why a pilot got nothing, and when to ask again
`activity`           the last pilot of each queue, and the workers of factories
`upkeep`             what is read or forgotten periodically; `task_queue_upkeep` that of task queues
===================  ==============================================================================================
"""
