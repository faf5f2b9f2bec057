"""The Celery data plane."""
