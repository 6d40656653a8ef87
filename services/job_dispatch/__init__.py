"""Gives jobs to pilots, judges what pilots report, and moves jobs from `defined` to their end.

Consumes: jobs.generated (is the input there?), transfers.completed, outputs.registered, task.commanded.
Hears as news: jobs.activated (arrivals for its windows), jobs.throttled, jobs.reordered (other priority or share),
jobs.dispatched (ids other replicas took), shares.corrected, config.changed, grid.changed.
Emits: jobs.assigned, jobs.activated, jobs.throttled, jobs.reordered, jobs.dispatched, jobs.started, outputs.produced,
jobs.transferring, jobs.merging, jobs.finished, jobs.failed, transfers.requested,
task.points_opened.
Owns: the statuses of jobs from `defined` on (except merging -> finished, which job_generation makes, and what the
watchdog expires), heartbeat_at, start_time, worker and command of jobs, priority and share of jobs that wait;
job_claims, job_reports, job_order_changes, workers, what pilots do with event_ranges, event_range_files,
queue_activity.last_pilot_at, dispatch_replicas, heard_minutes, site_adverts (but for CurMatches, which job_generation
raises); inserts transfers, the next attempts of failed event ranges, and the next points of searches
(hpo_searches.n_points).

============  =====================================================================================================
`acquire`     jobs to pilots: windows of waiting jobs in memory, picks from them, claims in the database
`lifecycle`   the way of a job from `defined` to its end: input, reports, outputs, commands
`coalescing`  one transaction for all that arrives together, a reply after the commit
`rotating`    secrets encrypted with the newest key
============  =====================================================================================================

How an acquire is answered (the windows decide nothing: whatever they say is compared-and-set in PostgreSQL):

* a *lane* is (queue, share, order key, shape); a shape is the interned requirement of a job, an order key what its
  order depends on where its VO uses task queues (0: nothing), so in a lane all jobs fit a pilot or none does
  (`policy.lane`, `policy.queue_window`, `policy.fitting`);
* each replica keeps the heads of lanes in memory, share by share in rank order as it comes to them (`queue_reads`;
  where jobs have order keys all lanes), refilled by keyset reads (`windows`) and by news;
* the best job is the smallest head among the fitting lanes of the first share in rank order (`shared.order`);
* where jobs have task queues, one that matches is drawn by its priority, and a class of user priority in it
  (`policy.task_queue_lanes`, `acquire.task_queues`); limits and delays of its site hold task queues back
  (`acquire.site_limits`);
* at a queue whose site advertises itself, Requirements of site and task are asked of that job first
  (`site_requirements`, `picks`); one that does not match stays activated;
* everything that waits is claimed by one statement as soon as a connection is free (`claims`, `sessions`).

HTTP: /api/v1/pilot/* (role pilot; acquires and reports as plain ASGI on bytes, the rest Starlette routes, `api.pilot`),
/server/panda/* (the same for published pilots, with flat answers, `api.legacy`), /api/v1/job/* and /api/v1/statistics/*
(`api.job`, `api.task_queues`), /api/v1/event/* (`api.event_ranges`),
/api/v1/harvester/update_workers (`api.factory`), /api/v1/site/advertise (`api.advert`).

Deletes task_queues and order_keys that have been empty for a while; job_generation makes them.
"""
