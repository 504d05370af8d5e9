"""Tools that need other people's libraries: servers of the Model Context Protocol, and pages of the web."""
