"""The addresses of the console: a module for each subject, with what its pages ask and show.

=============  =====================================================================================================
`visits`       who asks, from where, with which words; what becomes of errors; forms
`session`      signing in and out, at an issuer too, and the links of the command line
`home`         what needs you, the system, and the search
`tasks`        the list of tasks
`suggestions`  what the word that is being written into a filter may become
`task`         one task: state and progress, why it waits, its decisions, its time
`what_if`      a decision about a task, made again with other numbers
`commands`     commands on a task: what each would do, and the form that gives it
`bulk`         one command on several tasks, or the kill of several jobs: first what it hits
`jobs`         the list of jobs, one job, and its kill
`queues`       queues, one queue, and its cordon
`sites`        sites, and one site with its queues
`shares`       the tree of shares, and one of them
`task_queues`  task queues by priority, with every term
`live`         hints for open pages, as an event stream
`system`       services, messages that were put aside, invariants, who did what
`parameters`   runtime parameters, and the form that sets one
=============  =====================================================================================================
"""
