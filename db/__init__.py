"""The feature table: values, and the one speaker of SQL."""
