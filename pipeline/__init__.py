"""When a stage runs: DVC and Prefect. Never torch, transformers or datasets."""
