"""``hitcurve doctor``: what is wrong with an engine's prefix cache settings, and what to do about it."""
