"""Read and take what the jobs of a chunk need besides the input that was picked for them.

===============  =====================================================================================
`pooling`        what the jobs of a chunk may take of secondary datasets
`lacking`        what becomes of a task whose secondary dataset has no file left
`matching`       jobs are counted at sites that advertise themselves
`numbering`      random seeds, and places in a sequence, one for each job
`instantiating`  datasets of chosen sites, made from the templates of a task
===============  =====================================================================================
"""
