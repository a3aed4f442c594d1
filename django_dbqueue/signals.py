"""One event for each change of state that people ask about; logging only listens (``log_events``).

========================  ===========================================================================
signal                    arguments besides ``sender`` (the message model)
========================  ===========================================================================
``message_done``          queue, message_id, seconds (in the handler)
``message_failed``        queue, message_id, error, delay (seconds until it is due again, or None)
``message_died``          queue, message_id, error
``message_rescued``       queue, message_ids, evidence
``lease_lost``            queue, message_id, verb
``ack_undecided``         queue, message_id
========================  ===========================================================================
"""

from __future__ import annotations

from django.dispatch import Signal

message_done = Signal()
message_failed = Signal()
message_died = Signal()
message_rescued = Signal()
lease_lost = Signal()
ack_undecided = Signal()
