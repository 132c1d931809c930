from django.urls import path

from apps.jobs import api, views
from apps.jobs.views import boards, elsewhere, eventdoor, readers

app_name = "jobs"

urlpatterns = [
    path("jobs/", views.jobs, name="list"),
    path("jobs/new", views.gallery, name="new"),
    path("jobs/<str:job_id>/", views.detail, name="detail"),
    path("jobs/<str:job_id>/log/lines", views.log_lines, name="log-lines"),
    path("jobs/<str:job_id>/log/line/<int:number>", views.log_line, name="log-line"),
    path("jobs/<str:job_id>/log/download", views.log_download, name="log-download"),
    path("jobs/<str:job_id>/log/loki", elsewhere.look, name="log-loki"),
    path("jobs/<str:job_id>/log/loki/download", elsewhere.download, name="log-loki-download"),
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
    path("log-readers", api.readers.ReadersView.as_view(), name="log-readers"),
    path("log-readers/try", api.readers.TryView.as_view(), name="log-readers-try"),
    path("log-readers/<int:pk>", api.readers.ReaderView.as_view(), name="log-reader"),
    path("jobs", api.jobs.JobsView.as_view(), name="jobs"),
    path("jobs/<str:pk>", api.jobs.JobView.as_view(), name="job"),
    path("jobs/<str:pk>/ranks", api.jobs.RanksView.as_view(), name="job-ranks"),
    path("jobs/<str:pk>/manifests", api.jobs.ManifestsView.as_view(), name="job-manifests"),
    path("jobs/<str:pk>/log", api.jobs.LogView.as_view(), name="job-log"),
    path("jobs/<str:pk>/log/text", api.jobs.LogTextView.as_view(), name="job-log-text"),
    path("jobs/<str:pk>/log/loki", api.elsewhere.ElsewhereView.as_view(), name="job-log-loki"),
    path("jobs/<str:pk>/log/loki/text", api.elsewhere.ElsewhereTextView.as_view(), name="job-log-loki-text"),
    path("jobs/<str:pk>/points", api.points.PointsView.as_view(), name="job-points"),
    path("jobs/<str:pk>/points.csv", api.points.TableView.as_view(), name="job-points-csv"),
    path("jobs/<str:pk>/series", api.points.SeriesView.as_view(), name="job-series"),
    path("jobs/<str:pk>/events", api.events.EventsView.as_view(), name="job-events"),
    path("jobs/<str:pk>/board", api.boards.BoardView.as_view(), name="job-board"),
    path("jobs/<str:pk>/gpus", api.gpus.GpusView.as_view(), name="job-gpus"),
    path("jobs/<str:pk>/why", api.why.WhyView.as_view(), name="job-why"),
    path("jobs/<str:pk>/timeline", api.timeline.TimelineView.as_view(), name="job-timeline"),
    path("jobs/<str:pk>/causes", api.loss.CausesView.as_view(), name="job-causes"),
    path("jobs/<str:pk>/watch", api.loss.WatchView.as_view(), name="job-watch"),
    path("jobs/<str:pk>/watch/dismiss", api.loss.DismissView.as_view(), name="job-watch-dismiss"),
    path("jobs/<str:pk>/stop", api.jobs.StopView.as_view(), name="job-stop"),
    path("jobs/<str:pk>/suspend", api.jobs.SuspendView.as_view(), name="job-suspend"),
    path("jobs/<str:pk>/resume", api.jobs.ResumeView.as_view(), name="job-resume"),
    path("jobs/<str:pk>/register", api.jobs.RegisterView.as_view(), name="job-register"),
]
