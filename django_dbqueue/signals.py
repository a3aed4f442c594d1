"""One event for each change of state that people ask about; logging only listens (``log_events``).

========================  ===========================================================================
signal                    arguments besides ``sender`` (the message model)
========================  ===========================================================================
``message_done``          queue, message_id, seconds (in the handler)
``message_failed``        queue, message_id, error, attempt, exception, delay (seconds until it is due again, or None)
``message_died``          queue, message_id, error, attempt, exception, using (the alias of its database)
``message_rescued``       queue, message_ids, evidence
``message_ended``         message_id, using: it was cancelled, dropped or rejected by an operator or its sender, but
                          not in bulk (``drop_all()`` and the like send one for each); or acked by a supervisor whose
                          child had died after the handler's return
``lease_lost``            queue, message_id, verb (``"cancel"``: its message was cancelled)
``ack_undecided``         queue, message_id
``handler_stuck``         queue, message_id, handler (its name), seconds (since it began), after (what should have ended
                          it: ``"its timeout"``, ``"its cancellation"``, …), stack (where in the code it is, as a
                          traceback shows it, without variables: its thread, or what its coroutine awaits; ``""`` if it
                          has just ended)
``operator_acted``        verb, queue, by, reason, count (messages; 0 where the whole queue is meant), message_ids (the
                          first of them, where they were named), group (where a whole group is meant)
========================  ===========================================================================

``handler_stuck`` is sent once for a delivery, in a thread of its own of the child that will be replaced, while the
handler runs. The child waits five seconds for the listeners, and its end cuts them off. The message is settled later,
which the other signals tell.

``attempt``: how many deliveries were charged, the last one included. It is left out where a claim finds no read left,
and, as is ``using``, where a stream buries a message. ``exception``: what the handler raised, without the variables of
its frames; left out, or None, where it raised nothing that this process has.
"""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import Signal

logger = logging.getLogger(__name__)


class EventSignal(Signal):
    """A signal of what happened: an exception in a listener is logged, and doesn't stop the sender."""

    def send(self, sender: object, **named: object) -> list[tuple[Any, Any]]:
        answers = self.send_robust(sender, **named)
        for receiver, error in answers:
            if isinstance(error, Exception):
                logger.error("a listener of a signal failed: %s of %s", error, receiver, exc_info=error)
        return answers


message_done = EventSignal(use_caching=True)
message_failed = EventSignal(use_caching=True)
message_died = EventSignal(use_caching=True)
message_rescued = EventSignal(use_caching=True)
message_ended = EventSignal(use_caching=True)
lease_lost = EventSignal(use_caching=True)
ack_undecided = EventSignal(use_caching=True)
handler_stuck = EventSignal(use_caching=True)
operator_acted = EventSignal(use_caching=True)
