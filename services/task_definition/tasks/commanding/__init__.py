"""Commands on tasks: checked, recorded, carried out, announced (JEDI: Task Commando).

`commands` is the way in; the others carry out. What each command is stands in `policy.command_table`.
"""
