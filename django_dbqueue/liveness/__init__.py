"""Who is alive: how workers prove it (``presence``), who is late (``late_workers``) or dead (``dead_workers``)."""
