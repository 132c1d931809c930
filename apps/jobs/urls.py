from django.urls import path

from apps.jobs import (
    api,
    boards_api,
    events_api,
    gpus_api,
    loss_api,
    points_api,
    readers_api,
    timeline_api,
    views,
    why_api,
)
from apps.jobs.views import boards, eventdoor, readers

app_name = "jobs"

urlpatterns = [
    path("jobs/", views.jobs, name="list"),
    path("jobs/new", views.gallery, name="new"),
    path("jobs/<str:job_id>/", views.detail, name="detail"),
    path("jobs/<str:job_id>/log/lines", views.log_lines, name="log-lines"),
    path("jobs/<str:job_id>/log/line/<int:number>", views.log_line, name="log-line"),
    path("jobs/<str:job_id>/log/download", views.log_download, name="log-download"),
    path("jobs/<str:job_id>/stop", views.stop, name="stop"),
    path("jobs/<str:job_id>/suspend", views.control, {"act": "suspend"}, name="suspend"),
    path("jobs/<str:job_id>/resume", views.control, {"act": "resume"}, name="resume"),
    path("jobs/<str:job_id>/clone", views.clone, name="clone"),
    path("jobs/<str:job_id>/register", views.register, name="register"),
    path("jobs/<str:job_id>/events", views.event_file, name="event-file"),
    path("jobs/<str:job_id>/board", boards.board_open, name="board"),
    path("jobs/<str:job_id>/board/end", boards.board_end, name="board-end"),
    path("jobs/<str:job_id>/board/enter", boards.board_enter, name="board-enter"),
    path("gateway/enter", boards.gateway_enter, name="gateway-enter"),
    path("jobs/<str:job_id>/watch", views.loss_watch, name="loss-watch"),
    path("jobs/<str:job_id>/watch/dismiss", views.loss_dismiss, name="loss-dismiss"),
    path("jobs/<str:job_id>/watch/again", views.loss_again, name="loss-again"),
    path("artifacts/events/<str:job_id>", eventdoor.events, name="event-door"),
    path("drafts/", views.drafts, name="drafts"),
    path("drafts/<uuid:draft_id>/data", views.step, {"step": "data"}, name="draft-data"),
    path("drafts/<uuid:draft_id>/size", views.step, {"step": "size"}, name="draft-size"),
    path("drafts/<uuid:draft_id>/review", views.review, name="draft-review"),
    path("drafts/<uuid:draft_id>/dry-run", views.dry_run, name="draft-dry-run"),
    path("drafts/<uuid:draft_id>/submit", views.submit, name="draft-submit"),
    path("drafts/<uuid:draft_id>/discard", views.discard, name="draft-discard"),
]

reader_patterns = (
    [
        path("log-readers/", readers.listed, name="list"),
        path("log-readers/new", readers.reader, name="new"),
        path("log-readers/try", readers.tried, name="try"),
        path("log-readers/<int:pk>", readers.reader, name="edit"),
        path("log-readers/<int:pk>/remove", readers.remove, name="remove"),
    ],
    "readers",
)

api_patterns = [
    path("log-readers", readers_api.ReadersView.as_view(), name="log-readers"),
    path("log-readers/try", readers_api.TryView.as_view(), name="log-readers-try"),
    path("log-readers/<int:pk>", readers_api.ReaderView.as_view(), name="log-reader"),
    path("jobs", api.JobsView.as_view(), name="jobs"),
    path("jobs/<str:pk>", api.JobView.as_view(), name="job"),
    path("jobs/<str:pk>/ranks", api.RanksView.as_view(), name="job-ranks"),
    path("jobs/<str:pk>/manifests", api.ManifestsView.as_view(), name="job-manifests"),
    path("jobs/<str:pk>/log", api.LogView.as_view(), name="job-log"),
    path("jobs/<str:pk>/log/text", api.LogTextView.as_view(), name="job-log-text"),
    path("jobs/<str:pk>/points", points_api.PointsView.as_view(), name="job-points"),
    path("jobs/<str:pk>/points.csv", points_api.TableView.as_view(), name="job-points-csv"),
    path("jobs/<str:pk>/series", points_api.SeriesView.as_view(), name="job-series"),
    path("jobs/<str:pk>/events", events_api.EventsView.as_view(), name="job-events"),
    path("jobs/<str:pk>/board", boards_api.BoardView.as_view(), name="job-board"),
    path("jobs/<str:pk>/gpus", gpus_api.GpusView.as_view(), name="job-gpus"),
    path("jobs/<str:pk>/why", why_api.WhyView.as_view(), name="job-why"),
    path("jobs/<str:pk>/timeline", timeline_api.TimelineView.as_view(), name="job-timeline"),
    path("jobs/<str:pk>/causes", loss_api.CausesView.as_view(), name="job-causes"),
    path("jobs/<str:pk>/watch", loss_api.WatchView.as_view(), name="job-watch"),
    path("jobs/<str:pk>/watch/dismiss", loss_api.DismissView.as_view(), name="job-watch-dismiss"),
    path("jobs/<str:pk>/stop", api.StopView.as_view(), name="job-stop"),
    path("jobs/<str:pk>/suspend", api.SuspendView.as_view(), name="job-suspend"),
    path("jobs/<str:pk>/resume", api.ResumeView.as_view(), name="job-resume"),
    path("jobs/<str:pk>/register", api.RegisterView.as_view(), name="job-register"),
]
