"""Two loads beside each other, request by request."""
