"""What can go wrong on one machine, said so that the reader knows what to do about it."""


class LocalError(Exception):
    """A problem whose message is meant for the person who typed the command."""


class MissingServer(LocalError):
    """A server's programs are not on this machine and cannot be installed by this user."""
