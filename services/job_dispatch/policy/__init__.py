"""Pure decisions of the dispatcher: the next lane, what fits a pilot, a report's meaning, next states.

====================  =============================================================================================
`queue_window`        all lanes of a queue, and the pick
`task_queue_lanes`    its lanes by share and order key, and the draw among them
`queues_of_share`     what is drawn from when it is the turn of a share, by kind of pilot
`share_lanes`         the lanes of one share and order key, and the best job of them; `lane` the head of one
`reading`             how much of a queue is read, and when news of it are too many
`fitting`             what a pilot offers, and which shapes fit it
`new_task_queues`     priorities of task queues between two calculations; `order_changes` which keys changed
`no_match`            why a pilot got no job
`spec_order`          share and priority in the text of a job
`reports`             what a report means; `pilot_commands` what the pilot is told
`inputs`              whether a job can start where it was sent; `outputs` where it goes when it has ended
`commands`            what a command on a task does to its jobs; `reordering` to those that wait
`user_caps`           whose jobs are held back; `priority_balance` whose are raised
`event_ranges`        what a report does to a range of events; `workers` which worker a report is about
====================  =============================================================================================
"""
