"""The form of a task: every parameter that a submission may state.

Each has its type, range, unit, reader and changes.

Source: JEDI, task parameters. The rules among them are declared in `shared.task.rules`.

==============  ============================================================================================
`names`         snake case here, the field's spelling in JSON
`kinds`         types with ranges, and the objects among the values
`identity`      what the task is; what is only kept
`needs`         what a job needs
`work`          what it works on, how often it is tried, when it ends
`refused`       names that this version does not carry out, with the reason
`table`         `TaskParameters`, the whole; the facts by name
==============  ============================================================================================
"""
