"""What writes files of the repository, run by hand: make lock, make presets."""
