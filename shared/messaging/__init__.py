"""The bus: everything between the outbox of one service and the inbox of another.

`topology` names exchanges and queues; `relay` publishes outbox rows; `dispatcher` turns one delivery into one
transaction; `rabbitmq` and `in_process` are the two transports. Nothing outside this package knows which one is used,
and nothing else imports FastStream or aio-pika.
"""
