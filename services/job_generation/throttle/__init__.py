"""Decide how much input of a share is offered, and whose (JEDI: Job throttling).

============  ================================================================================
`throttle`    whether enough is queued already; `fair_share` how much of the rest a share gets
`gate_order`  which task goes first at the gate of a share
`gating`      one gate for each share and resource type, held by whoever offers input
`waking`      tasks held by the throttle go on when their share has room
`parameters`  the limits of a gate; `store`: its counts, and who waits at it
============  ================================================================================
"""
