"""What a person sees while a build runs and when it has ended."""
