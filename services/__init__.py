"""One import package per deployable service; none imports a sibling (the command line alone may)."""
