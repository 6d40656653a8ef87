"""Jumbo watchdog: switches jumbo jobs on and off in event-service tasks (JEDI: Jumbo job switcher).

Consumes: nothing by queue; receives config.changed. Emits: task.jumbo_switched, task.order_requested. Sets `use_jumbo`
of tasks (W: waiting for its first jumbo job, L: all are gone, D: disabled), and owns the table jumbo_reasons.
Parameters: component jumbo_dog, keys JUMBO_*.
"""
