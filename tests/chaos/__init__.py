"""Real processes, real servers, real kills: the small demonstration must end well whatever dies in its middle."""
