"""The way of a job from `defined` to its end: input, reports, outputs, commands.

=================  ================================================================================================
`inputs`           jobs that were generated, or whose input arrived: activated, or sent for their input
`reports`          what pilots say, judged and stored together
`outputs`          jobs whose outputs are registered or have arrived
`transitions`      changes of state, with their events
`command_slices`   what a command on a task does to its jobs, a few hundred in a transaction
`commanding`       commands for pilots that have jobs, and debug mode
`reordering`       another priority or share for jobs that wait
`user_caps`        jobs of users who run too many are held back; `cap_room`: how many more may go
`balancing`        waiting analysis jobs of users who ran less than others are raised
`event_ranges`     ranges of events to pilots, and their reports
=================  ================================================================================================
"""
