"""Lanes: the inside of groups. A lane has a line of messages that wait, and a few tickets that let one run each.

``kick``, ``rates``, ``tickets`` and ``walk`` import no Django: Spark's executors end messages too. The protocol:

* A sender writes a message of a group parked, and puts it into its lane's line. After its commit, it checks whether a
  ticket is free. If one is, the first in line may run (``kick``).
* A message keeps its ticket until it ends; the transaction that ends it gives the ticket to the first of the line, or
  frees it.
* Whoever frees a ticket checks again after the commit. Of two that check after their commits, at least one sees both.

There is no counter to get wrong: a primary key refuses a second holder of a ticket.
"""

from __future__ import annotations
