"""The demonstration: autoforge itself, between a loopback GitHub and a scripted model."""
