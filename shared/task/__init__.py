"""The rules of a task: declared once, read as typed attributes by all services.

Source: JEDI, split rules; PanDA client.

==============  ============================================================================================
`rules`         the declaration: JSON name, attribute, letters, type, unit, range, default, reader, changes
`about`         what is known of a rule besides its type
`types`         types of values with their ranges
`in_effect`     `SplitRules`: stored rules as one typed value, without those that another one disables
`stored`        rules as table `tasks` keeps them: by their JSON names
`needs`         what a task asks of a queue, in unit-named fields
`expected_end`  when a task ends, by how fast its input was processed
`refused`       rules of the field that this version does not carry out, with the reason
`rule_text`     rules as text of two-letter codes, in and out
==============  ============================================================================================

Everybody else reads attributes of `SplitRules`. A JSON name is written in `rules` alone.
"""
