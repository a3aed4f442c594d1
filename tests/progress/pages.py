"""URLs of a project that shows its users how far their work is."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import path

from django_dbqueue.models import Flow, Message
from tests.urls import urlpatterns as others

PAGE = """<!DOCTYPE html>{% load static dbqueue %}
<html lang="en"><head><title>Import</title>
<script src="{% static 'django_dbqueue/progress.js' %}" defer></script></head>
<body><main><h1>Import</h1>{% dbqueue_progress work label="Import" %}{% dbqueue_progress mail %}</main></body></html>
"""


def work(request: HttpRequest, flow: int, message: int) -> HttpResponse:
    context = {"work": Flow.objects.get(pk=flow), "mail": Message.objects.get(pk=message)}
    return HttpResponse(engines["django"].from_string(PAGE).render(context, request))


urlpatterns = [*others, path("work/<int:flow>/<int:message>", work)]
