"""Kinds of traffic, one a file: each decides what the next request asks. Profiles give them their sizes."""
