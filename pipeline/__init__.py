"""WHEN: the command line, and what orders DVC and Prefect about."""
