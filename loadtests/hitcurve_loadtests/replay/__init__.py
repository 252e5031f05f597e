"""Recorded traffic sent again: readers of public trace formats, a file each, and the traffic they make."""
