"""What tasks read and write.

=================  ==============================================================================================
`wishing`          what catalogues outside are asked for is written down; `cataloguing`: workers carry it out
`importing`        datasets and files that operators import into the built-in catalogue
`owning`           whose names of datasets are whose; `telling`: the owner is told who was refused
`registering`      outputs of jobs enter the catalogue; transfers are timed and completed
`naming`           outputs by expression (regex|...) get the names of what payloads wrote
`expiring`         what is used up is deleted
=================  ==============================================================================================
"""
