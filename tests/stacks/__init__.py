"""Stacks of pull requests from the first branch to the last merge."""
