"""Entry points for background work on kept logs."""

from celery import shared_task

from apps.streams.services import merge_topic, remove_segment


@shared_task(name="streams.remove_segment")
def remove_segment_task(pk: int) -> None:
    remove_segment(pk)


@shared_task(name="streams.merge_segments")
def merge_segments_task(topic: str) -> None:
    merge_topic(topic)
