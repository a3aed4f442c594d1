"""Consumers that do what their message tells them, and write down what they saw."""
