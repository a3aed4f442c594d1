"""Figures for Prometheus and its kin, in the OpenMetrics format: ``path("metrics", metrics)``.

It needs no library, and no worker is scraped: the figures are what workers have counted, and a few bounded looks.
"""
