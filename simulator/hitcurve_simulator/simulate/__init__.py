"""``hitcurve simulate``: cache rules on a workload or a trace."""
