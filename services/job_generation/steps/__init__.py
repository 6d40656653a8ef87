"""The plain path of a task: four steps, which know no kind of jobs but scouts and normal ones.

===========  ====================================================================================
`offering`   ready -> picked: the next chunks of a task, as far as the throttle lets it
`making`     a brokered chunk -> jobs, in one transaction; what does not fit goes back
`counting`   ended jobs -> files, once for each job
`settling`   what follows: what each kind wants next, more chunks, prepared, progress
`doors`      what the steps ask each kind of jobs, in the order in which the kinds are registered
===========  ====================================================================================
"""
