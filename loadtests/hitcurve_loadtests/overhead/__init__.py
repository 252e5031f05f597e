"""What a setting costs: the same load on two engines in turns."""
