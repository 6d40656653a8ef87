"""The order in which shares and users are served: one set of pure rules for every service.

For dispatch, correction and dry run. No database, no clock, no random generator: usage, now and what is drawn are
arguments.

===============  ==================================================================================================
`tree`           the tree of shares: what is due to each node, and what is used below it
`ranking`        leaves in the order served, each with the numbers it was placed by
`standing`       who borrows and who is starved
`share_order`    the order between two readings of what executes
`wms_history`    the corrector of the documents: who ran more than its share gets less
`configuration`  instances and slices of a corrector, in the form of the field
`task_queues`    the priority of each task queue, with its terms
`identity`       what makes two jobs members of one task queue; user priorities
`cpu_segments`   classes of CPU time
`matching`       which task queues fit a pilot
`draw`           a draw by weight among many, whose weights change
`criteria`       conditions about task queues that people write
`site_limits`    running limits and matching delays of sites
`parameters`     whether a VO uses task queues, and how they are ordered
===============  ==================================================================================================
"""
