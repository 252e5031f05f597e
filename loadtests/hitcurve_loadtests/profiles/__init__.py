"""Traffic profiles, one a file: each decides what the next request asks."""
