"""The ledger that makes a stream's claims its offsets: no Django and no Spark, the same for both.

``owning`` decides who runs a stream, ``claiming`` makes and acks its claims, ``delivering`` decides what a claim's
readers get, and ``freeing`` releases what nobody will finish. Every transaction locks the stream's row first.
"""

from __future__ import annotations
