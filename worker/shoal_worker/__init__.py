"""The Celery service: takes jobs from the database, runs the pipeline, writes."""
