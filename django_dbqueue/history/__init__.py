"""The history's partitions."""
