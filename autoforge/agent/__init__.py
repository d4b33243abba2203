"""The agent: one session of the claude CLI, the tools we hand to it, and what it may do."""
