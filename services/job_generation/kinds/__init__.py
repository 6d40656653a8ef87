"""Kinds of jobs, each a room with the doors that the steps ask (`steps.doors`).

===============  =========================================================================================
`normal`         process the task's input
`scout`          process the first of it, to measure what the others need
`build`          a user's sources are compiled once for each site, which the other jobs read
`preprocess`     find out how the task is to be defined
`merge`          make final outputs of unmerged ones, and end the jobs that wrote these
`copies`         several jobs of the same input, of which one counts (useJobCloning)
`event_service`  job sets whose jobs take ranges of events while they run, and merge what was made of them
`search`         job sets that evaluate points of hyper-parameters
`jumbo`          jobs that take ranges of all sets, and job sets that wait for others meanwhile
`registered`     all of them, in the order in which the steps ask
`room`           what kinds are built on
===============  =========================================================================================

A room has its doors in `doors`, what its jobs differ in in `job`, and its statements in `store`. Whoever removes a
room and its line in `registered` removes that kind, and nothing else.
"""
