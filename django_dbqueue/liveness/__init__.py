"""Who is alive: how a worker proves it, how others see it, and what the dead leave."""
