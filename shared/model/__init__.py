"""Values of more than one service: queues, sites, storages, links, resource types, units, needs.

Everything here is pure and frozen. Tasks keep value and unit as they were submitted; `units` and `needs` convert once
into unit-named fields (kB, MB and GB are 1024-based), so no other code ever reads a unit string.

=================  ==============================================================================
`units`            parse "ramUnit", "outDiskUnit", ... into one amount with its meaning
`needs`            what one task asks of a queue: cores, memory, disk, walltime, connectivity
`resource_types`   the classes of work (SCORE, MCORE_HIMEM, ...) and a queue's part for each of them
`queue`            a queue as CRIC describes it; `site`, `storage`, `link`, `software` likewise
`grid`             a whole grid read from files: everything valid, or every problem listed
=================  ==============================================================================
"""
