"""Prefect around the graph of dvc.yaml: nothing else in here imports Prefect."""

import os

# Before Prefect is imported: it reads its settings once. It sends nobody anything, and waits for no terminal.
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("DVC_NO_ANALYTICS", "1")
