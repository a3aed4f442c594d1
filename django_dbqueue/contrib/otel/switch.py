"""Whether OpenTelemetry watches: decided when Django starts, and once more when a worker does.

Nothing of OpenTelemetry is imported unless somebody else has imported it, or ``DBQUEUE["TRACE"]`` is True.
"""

from __future__ import annotations

import sys

from django_dbqueue import conf, hooks

_API = {"opentelemetry.trace": "get_tracer_provider", "opentelemetry.metrics": "get_meter_provider"}


def connect() -> None:
    """Let OpenTelemetry watch, if it is wanted and does not yet."""
    wanted = conf.tracing()
    if wanted is False or (wanted is None and not has_provider()):
        return
    try:
        from django_dbqueue.contrib.otel.otel_instrument import OTelInstrument
    except ImportError:
        return  # the check E009 says so
    if not any(isinstance(each, OTelInstrument) for each in hooks.installed()):
        hooks.add(OTelInstrument())


def disconnect() -> None:
    """Let it watch no more."""
    for each in hooks.installed():
        if type(each).__module__.startswith(__package__):
            hooks.remove(each)


def has_provider() -> bool:
    """Return whether a provider of traces or of metrics is set, other than the API's own, which do nothing."""
    for module, getter in _API.items():
        api = sys.modules.get(module)
        if api is not None and not type(getattr(api, getter)()).__module__.startswith(module):
            return True
    return False
