"""Job brokerage: a chunk of input to ranked queues, with a reason for every queue that was left out.

Consumes `chunk.offered`, and every event about jobs for the queue statistics. Emits `chunk.brokered`,
`chunk.unplaceable`, `tasks.woken` when what held tasks has changed, and the news `grid.changed` and
`statistics.changed`.

Owns the tables of the grid (sites, queues, absent_queues, storages, network_metrics, software_map, resource_types, the
tree of shares), queue_statistics, queue_activity, queue_slots, queue_outcomes, queue_waits, and its rows of
brokerage_decisions and waits.

=============  ============================================================================================
`policy`       the plugins: production, analysis, and an example of another VO, which share `stages`; `filters` and
               `weights`; `request`, a chunk's row as the value that they read; `grid_checks` of a queue
`handlers`     load, decide, commit; `loading` what is decided on
`supposing`    what would be decided if a number were another one
`waking`       which waiting tasks are looked at again before their time
`auditing`     statistics of queues compared with table jobs, and corrected
`store`        `statistics`: job events folded into statistics of queues, and published;
               `slots` of a queue, as Harvester sets them; `grids`, loaded whole or not at all
`api`          load the grid, list queues and sites, set slots, save the world, ask what if
=============  ============================================================================================
"""
