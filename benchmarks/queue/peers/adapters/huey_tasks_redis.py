"""huey as a backend of Django's tasks, with its queue in Redis. See `huey_tasks`."""

from benchmarks.queue.peers.adapters.huey_tasks import Adapter as Adapter
