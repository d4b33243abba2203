"""The schema's steps, forward only; run by `schema.py`, which takes the copy first."""
