"""Stand-ins that the tests talk to: GitHub, checked against its own description."""
