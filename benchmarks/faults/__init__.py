"""The scoreboard: the same faults for this queue and for others, and what each lost, doubled or left hanging."""
