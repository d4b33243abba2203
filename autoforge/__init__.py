"""Builds a specification in a git repository with several agents at once, as stacked pull requests."""
