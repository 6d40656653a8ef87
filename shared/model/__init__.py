"""Values of more than one service: queues, sites, storages, links, resource types, units.

Everything here is pure and frozen. Tasks keep value and unit as they were submitted; `units` and `shared.task.needs`
convert once into unit-named fields (kB, MB and GB are 1024-based), so no other code ever reads a unit string.

=================  ==============================================================================
`units`            parse "ramUnit", "outDiskUnit", ... into one amount with its meaning
`architecture`     the platform and hardware that a task needs
`resource_types`   the classes of work (SCORE, MCORE_HIMEM, ...) and a queue's part for each of them
`queue`            a queue as CRIC describes it; `site`, `storage`, `link`, `software` likewise; `queue_vos` whose it is
`grid`             a whole grid read from files: everything valid, or every problem listed
`share`            global shares: a tree of percentages
`world_file`       all that a brokerage decision reads, as one JSON document
`job_types`        which types of jobs belong together; `dataset_types` which of datasets
`analysis`         which work is analysis; `urgency` which is urgent
`priorities`       priorities of tasks and jobs; `grid_preferences` of users; `progress` how far tasks are
`command_line`     placeholders of job parameters and file names; `placeholders` their decorators
`job_report`       what a pilot's final report says; `job_of_client` a job in the words of PanDA's client
`job_xml`          jobs that a user describes one by one; `points` of an optimisation; `co_jumbo` stand-ins of job sets
`criteria`         criteria in SQL's language; `expression` regular expressions that people write
`names`            names of datasets as catalogues write them; `outputs_by_expression` those of regex|...
`common_names`     names that have much in common with most others
`problems`         problems of outside data; `task_spec_problems` of what was sent; `known_fields` a record may have
`visible_text`     others' texts made safe to show; `log_lines` in a log; `secret_notes` to the owner of secrets
`batches`          long sequences cut into batches; `steps` long work into steps
`whole_numbers`    how large ids and seeds may be; `spans` of time as people write them
=================  ==============================================================================
"""
