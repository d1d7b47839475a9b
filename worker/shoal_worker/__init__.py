"""The Celery worker service: claims work from the database, runs the pipeline and stores the results."""
