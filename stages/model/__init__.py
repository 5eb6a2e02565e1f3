"""The model to start from: where it comes from, which of its files count, what it must be able to do."""
