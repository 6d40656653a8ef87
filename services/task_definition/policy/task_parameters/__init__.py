"""The table of task parameters: every field with type, range, unit, reader and changes.

Source: JEDI, task parameters.

==============  ============================================================================================
`about`         what is known of a parameter besides its type
`names`         snake case here, the field's spelling in JSON
`kinds`         types with ranges, and the objects among the values
`identity`      what the task is; what is only kept
`place`         where it may run
`needs`         what a job needs
`splitting`     how it is cut into jobs, how often they are tried
`data`          how it takes its input
`refused`       names that this version does not carry out, with the reason
`table`         `TaskParameters`, the whole; the facts by name
`rule_text`     split rules as text of two-letter codes, in and out
==============  ============================================================================================
"""
