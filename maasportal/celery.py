"""The Celery application. A task is an entry point of three lines; the row, not the message, is the queue."""

from celery import Celery

app = Celery("maasportal")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()  # of every installed app
