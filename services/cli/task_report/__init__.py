"""A task on one page that needs no server.

===========  =========================================================================================================
`asking`     asks the services for all that is on it
`efficiency` how well the processor and memory of its jobs were used
`page`       makes the file: no scripts, no addresses of elsewhere
===========  =========================================================================================================
"""
