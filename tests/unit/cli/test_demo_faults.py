from types import SimpleNamespace

import pytest

from services.cli.demo.faults import SERVICES, FaultInjector, InjectedFault, parse_fault
from services.cli.failures import WrongUsage


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill:rabbitmq", InjectedFault("kill", "rabbitmq", 0.3)),
        ("restart:postgresql@0.5", InjectedFault("restart", "postgresql", 0.5)),
        ("kill:job-dispatch@0", InjectedFault("kill", "job-dispatch", 0.0)),
        ("kill:services@.75", InjectedFault("kill", "services", 0.75)),
    ],
)
def test_a_fault_is_an_action_a_target_and_a_moment(text, fault):
    assert parse_fault(text) == fault


@pytest.mark.parametrize("text", ["rabbitmq", "kill:", "drown:redis", "kill:moon", "kill:redis@2", "kill:redis@x"])
def test_a_fault_that_cannot_be_is_refused_with_what_can(text):
    with pytest.raises(WrongUsage, match="postgresql"):
        parse_fault(text)


class FakeSystem:
    def __init__(self):
        self.struck = []

    def kill9(self, service):
        self.struck.append(("kill", service))

    def servers(self):
        def server(name):
            return SimpleNamespace(
                kill9=lambda: self.struck.append(("kill", name)), stop=lambda: self.struck.append(("stop", name))
            )

        return SimpleNamespace(postgresql=server("postgresql"), rabbitmq=server("rabbitmq"), redis=None)


def test_each_fault_strikes_once_and_only_when_enough_is_done():
    system, said = FakeSystem(), []
    faults = [parse_fault("kill:rabbitmq@0.2"), parse_fault("restart:postgresql@0.6")]
    injector = FaultInjector(faults, system, said.append)
    for fraction in (0.0, 0.1, 0.25, 0.3):
        injector.look(fraction)
    assert system.struck == [("kill", "rabbitmq")]
    assert not injector.all_struck
    injector.look(0.9)
    injector.look(1.0)
    assert system.struck == [("kill", "rabbitmq"), ("stop", "postgresql")]
    assert injector.all_struck
    assert len(said) == 2


def test_killing_services_kills_one_copy_of_each():
    system = FakeSystem()
    FaultInjector([parse_fault("kill:services@0")], system, lambda _: None).look(0.0)
    assert system.struck == [("kill", service) for service in SERVICES]


def test_a_server_that_is_not_ours_cannot_be_killed():
    with pytest.raises(WrongUsage, match="redis"):
        FaultInjector([parse_fault("kill:redis@0")], FakeSystem(), lambda _: None).look(0.0)
