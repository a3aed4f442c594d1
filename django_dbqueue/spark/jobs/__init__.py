"""The pipeline's jobs: one module each with ``run(spark, config)``; ``config`` declares their arguments."""
