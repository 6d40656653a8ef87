"""The adapter of Rucio: its own client library behind the port `shared.catalogue.outside`.

`session` makes clients that are logged in and runs their blocking calls in a few threads, each with a limit of time.
`settings`: where it is, and who Orrery is there. `adapter` says the port's words in Rucio's.
"""
