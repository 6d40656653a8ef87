"""What people keep here besides tasks and data.

=================  ==============================================================================================
`sandboxing`       files that people upload for their payloads
`api`              accounts, tokens, logins, parameters, work queues, files
=================  ==============================================================================================
"""
