"""What is done after a job failed with an error that somebody wrote a rule for.

Source: PanDA, job retry module.

A rule names an error (its source, its code, how its text begins) and conditions of the job (architecture, release, work
queue), and one action with its parameters. Rules are data: operators list and change them while the system runs.

===========  =========================================================================================================
`types`      rules, errors, and what a decision says
`matcher`    whether a rule fits an error of a job, and which conditions say so
`engine`     the one rule that decides for a job: the first of its errors that has a rule, there the most specific one
`remedies`   what an action means for the files of the job, and for its task
`problems`   what is wrong with a list of rules
`retrying`   asks the rules about jobs that failed, and writes what follows for the task
`store`      the rules, and what they decided
===========  =========================================================================================================
"""
