"""A site whose web requests, tasks and messages are traced; for the tests of `django_dbqueue.contrib.otel` alone."""
