"""The pipeline beside Spark's own JDBC source and the raw client. Targets: `benchmarks/README.md`."""
