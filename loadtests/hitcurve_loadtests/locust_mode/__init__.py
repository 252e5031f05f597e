"""hitcurve's traffic under plain Locust: users, events, and a tab of its own in the web interface."""
