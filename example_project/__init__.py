"""The example project: real departures through the queue, from `manage.py ingest_flights` to the admin."""
