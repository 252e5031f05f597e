"""What the best cache could reach on recorded traffic, and what more memory, other blocks or routing would buy."""
