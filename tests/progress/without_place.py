"""URLs of a project that has no place for progress links."""

from __future__ import annotations

urlpatterns: list[object] = []
