"""Whose address a request comes from, also behind proxies, and which addresses count as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network
#: what one customer gets of IPv6, and may choose addresses in as it likes
_IPV6_OF_ONE = 64


def networks_of(text: str) -> tuple[Network, ...]:
    """Networks separated by commas; an address alone is one. Raises ValueError with what is allowed."""
    try:
        return tuple(ip_network(one.strip()) for one in text.split(",") if one.strip())
    except ValueError as error:
        raise ValueError(f"{error}; allowed: addresses and networks (10.0.3.0/28) separated by commas") from None


def is_inside(host: str, networks: Iterable[Network]) -> bool:
    """Whether an address is in one of the networks; an IPv4 address in IPv6 form counts as what it is."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in networks)


@lru_cache(10_000)
def counted_as(host: str) -> str:
    """The address under which calls are counted: of IPv6 the network /64.

    An IPv4 address in IPv6 form is that address.

    Example: 2001:db8:1:2:a::1 and 2001:db8:1:2:b::9 are both 2001:db8:1:2::/64.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host[:100]
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((int(address) >> _IPV6_OF_ONE << _IPV6_OF_ONE, _IPV6_OF_ONE)))


class Proxies:
    """The proxies before this process, whose word on a caller's address is taken (`X-Forwarded-For`)."""

    def __init__(self, networks: Sequence[Network] = ()) -> None:
        self._networks = tuple(networks)
        self.trusts = lru_cache(10_000)(lambda host: is_inside(host, self._networks))

    def address(self, peer: str, forwarded: str) -> str:
        """The address of the caller: the last one in the list that is no proxy.

        That of the peer where the peer is no proxy.
        """
        if not self._networks or not self.trusts(peer):
            return peer
        for one in reversed([part.strip() for part in forwarded.split(",") if part.strip()]):
            if not self.trusts(one):
                return one
        return peer
