"""One script per figure, run by hand: see README.md."""
