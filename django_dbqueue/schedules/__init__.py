"""When a schedule is due, and which schedules settings and consumers declare."""
