"""The demonstration: starts the system, loads the example world, submits nine tasks, judges the end.

Simulated pilots do the work.

It uses only what a user has: `deploy.local` to start the system, HTTP for everything else. With faults (for the tests
of faults) it kills services and servers in the middle and expects the same end.

* `profiles` how much work, how many pilots; `examples` the tasks and data it submits;
* `stage` starts and stops the system; `crew` the pilots' process; `faults` what is killed, and when;
* `observation` asks how far everything is; `display` shows it; `evidence` what was to be seen;
  `verdict` judges the end; `program` runs it all, `verb` is what users type.
"""
