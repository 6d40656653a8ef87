"""How long jobs may stay where they are: the rules as data.

The watchdog keeps them, and `explain job` says which comes next.

===========  ========================================================================================================
`rule`       what a rule is, and what it asks of a job and its queue
`built_in`   the rules of the field, with their runtime parameters
`limits`     the limits in force: runtime parameters as numbers
`judging`    which rule ends a job, which is next and when, and when rules are asked about it
`hearing`    how much of a pilot's silence counts, after an outage of ours or on the road to it
`outages`    the parameters of that
`added`      rules that VOs added, and all that are in force
`queues`     what rules are told of the queues of a grid
===========  ========================================================================================================

Reads timeout_rules, queue_activity, absent_queues and heard_minutes, and writes nothing.
"""
