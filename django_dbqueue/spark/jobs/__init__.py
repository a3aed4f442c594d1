"""The pipeline's jobs: ``run(spark, config)`` in a module each; what they take is declared in ``config``."""
