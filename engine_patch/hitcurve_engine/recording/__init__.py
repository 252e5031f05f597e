"""Off the scheduler thread: the queue of what the hooks saw, its replay into the ledger, and who is told."""
