"""The command line, `orrery`: a client of the services' HTTP APIs, and every service in one process.

Owns no state. It finds the services in `.local/run.json` (written by the supervisor of `deploy/local`) or through
`ORRERY_<SERVICE>_URL`, and shows its caller's token from `ORRERY_TOKEN` or, on a development machine, one made with
the key of the development issuer.

* `app` puts the verbs together; `commands/` has them, one module for each subject;
* `client` sends requests and turns every kind of refusal into one exception; `addresses` and `tokens`: where, as whom;
* `output` prints tables for people and JSON for programs; `identifiers` reads ids from arguments and standard input;
* `one_process` runs all services together; `demo/` is the demonstration, with its verb;
  `drawings` draws the map of the services.

Exit codes: 0 done, 1 refused or a rule is broken, 2 wrong usage or configuration, 3 a service cannot be reached.
"""
