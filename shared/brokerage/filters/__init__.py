"""The checks of the brokerages: one filter, one function, in modules by what they look at.

Numbers of checks are stored with decisions: 1 to 99 which queues are asked at all, 100 to 199 what a queue is made of,
200 to 299 storages and data, 300 to 399 how busy it is and how it is connected, 400 to 499 rules, 500 to 599 nuclei.
"""
