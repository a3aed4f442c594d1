"""Django's settings for threadmill: its processes don't inherit what an adapter configures, so each reads this."""

from benchmarks.queue.peers.adapters import django_site
from benchmarks.queue.peers.adapters.adapter import server

globals().update(
    django_site.settings_of(
        "threadmill",
        TASKS={
            "default": {
                "BACKEND": "threadmill.backends.redis.RedisTaskBackend",
                "REDIS_URL": server().geturl(),
            }
        },
    )
)
