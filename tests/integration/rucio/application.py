"""A Rucio server of the tests' own: run by the Python that has Rucio, not by Orrery's.

It makes its tables, two storages without any machine behind them, and serves Rucio's REST interface. What its daemons
would do by themselves is done when a test asks: /tests/arrive ends the transfers of a rule, /tests/messages gives what
would be sent about rules.
"""

from __future__ import annotations

import json
import sys

from rucio.common.types import InternalAccount, InternalScope
from rucio.core import account_limit, distance, lock, message, replica, rse, scope
from rucio.daemons.hermes import hermes
from rucio.db.sqla import models
from rucio.db.sqla.constants import LockState, ReplicaState
from rucio.db.sqla.session import get_engine, read_session, transactional_session
from rucio.db.sqla.util import create_base_vo, create_root_account
from werkzeug.serving import run_simple

#: two for the adapter alone, and those of the grid of a story
STORAGES = ("A_DISK", "B_DISK", "ALPHA_DATADISK", "BETA_DATADISK", "GAMMA_DATADISK", "DELTA_DATADISK")
DOMAINS = {
    "lan": {"read": 1, "write": 1, "delete": 1},
    "wan": {"read": 1, "write": 1, "delete": 1, "third_party_copy_read": 1, "third_party_copy_write": 1},
}


@transactional_session
def prepare(*, session):
    """Storages that reach each other, and as much as one wants in them."""
    root = InternalAccount("root")
    ids = {}
    for name in STORAGES:
        ids[name] = rse.add_rse(name, session=session)
        protocol = {"scheme": "mock", "hostname": name, "port": 1, "prefix": "/data", "domains": DOMAINS}
        rse.add_protocol(ids[name], {**protocol, "impl": "rucio.rse.protocols.mock.Default"}, session=session)
        account_limit.set_local_account_limit(root, ids[name], -1, session=session)
    for source in STORAGES:
        for target in STORAGES:
            if source != target:
                distance.add_distance(ids[source], ids[target], 1, session=session)
    for name in ("mc", "data", "orrery"):
        scope.add_scope(InternalScope(name), root, session=session)


@transactional_session
def arrive(rule_id, *, session):
    for one in lock.get_replica_locks_for_rule_id(rule_id, session=session):
        if one["state"] != LockState.OK:
            place = one["scope"], one["name"]
            replica.update_replica_state(one["rse_id"], *place, ReplicaState.AVAILABLE, session=session)
            lock.successful_transfer(*place, one["rse_id"], nowait=False, session=session)


class Kept:
    """A broker that keeps what the daemon sends to it."""

    def __init__(self):
        self.sent = []

    def is_connected(self):
        return True

    def send(self, body, destination, headers):
        self.sent.append({"body": body, "destination": destination, "headers": headers})


@read_session
def messages(*, session):
    """Everything that is to be told, as the daemon hermes sends it itself."""
    broker = Kept()
    told = message.retrieve_messages(bulk=10_000, session=session)
    hermes.deliver_to_activemq(told, [broker], "/topic/rucio.events", "", "", False, lambda *_: None)
    return broker.sent


def wrapped(application):
    def answer(environ, start_response):
        path = environ.get("PATH_INFO", "")
        if not path.startswith("/tests/"):
            return application(environ, start_response)
        if path == "/tests/messages":
            body = messages()
        else:
            arrive(environ["QUERY_STRING"])
            body = []
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]

    return answer


if __name__ == "__main__":
    models.BASE.metadata.create_all(get_engine())
    create_base_vo()
    create_root_account()
    prepare()
    from rucio.web.rest.flaskapi.v1.main import application

    run_simple("127.0.0.1", int(sys.argv[1]), wrapped(application), threaded=True)
