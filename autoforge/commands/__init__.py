"""One file per command or command group; they wire the rooms and print."""
