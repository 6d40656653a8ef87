"""Job brokerage: a chunk of input to ranked queues, with a reason for every queue that was left out.

Consumes `chunk.offered`, and every event about jobs for the queue statistics. Emits `chunk.brokered`,
`chunk.unplaceable`, `tasks.woken` when what held tasks has changed, and the news `grid.changed` and
`statistics.changed`.

Owns the tables of the grid (sites, queues, storages, network_metrics, software_map, resource_types, the tree of
shares), queue_statistics, queue_activity, queue_slots, queue_outcomes, queue_waits, and its rows of
brokerage_decisions and waits.

=============  ============================================================================================
`policy`       the plugins: production, analysis, and an example of another VO, which share `stages`
`request`      a chunk's row as the value that policies read
`handlers`     load, decide, commit
`waking`       which waiting tasks are looked at again before their time
`statistics`   job events folded into the statistics of queues; published, and audited against table jobs
`slots`        how many slots of a queue are to be filled, as Harvester sets it; `slots_api` its call
`grid_store`   a grid loaded whole or not at all; `grid_checks` what else a queue must keep to
`api`          load the grid, list queues and sites, save the world and tasks
=============  ============================================================================================
"""
