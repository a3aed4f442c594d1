"""Drivers that run as processes of their own, so that a test can kill them."""
