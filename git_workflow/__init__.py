"""Git and the forge: worktrees, bases, commits, pushes and pull requests."""
