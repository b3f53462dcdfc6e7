"""The steps of a run, and each verb as a function."""
