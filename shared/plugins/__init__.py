"""Plugins: a VO brings its own brokerage, generation, corrector or letters as an entry point.

    [project.entry-points."orrery.job_brokerage"]
    "example.any" = "services.job_brokerage.policy.example_vo:ExampleJobBrokerage"

Names are `<vo>.<label>`; `any` stands for every VO or label. The protocol of each group is with its policies
(`shared.brokerage.policy`, `services.job_generation.generating.plugin`); `conformance` tests a plugin against it.
"""

from shared.plugins.discovery import GROUPS, PluginError, candidates, find, installed

__all__ = ["GROUPS", "PluginError", "candidates", "find", "installed"]
