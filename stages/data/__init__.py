"""Raw rows: found, read, cut into splits, looked over. What prepare and `remint check` share."""
