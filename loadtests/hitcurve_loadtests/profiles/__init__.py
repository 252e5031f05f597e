"""Traffic profiles, a YAML file each, and how they are read."""
