from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("streams", "0003_kept_logs")]

    operations = [
        migrations.AddField("point", "origin", models.SmallIntegerField(db_default=0, default=0)),
        migrations.RunSQL("UPDATE streams_point SET origin = 1 WHERE pushed", migrations.RunSQL.noop),
        migrations.RemoveField("point", "pushed"),
        migrations.AddField("curve", "origins", models.SmallIntegerField(db_default=1, default=1)),
        # A curve that had points of both kinds did not say so: bit 0 is the log's, bit 1 of what was pushed.
        migrations.RunSQL("UPDATE streams_curve SET origins = 3 WHERE pushed", migrations.RunSQL.noop),
        migrations.RemoveField("curve", "pushed"),
    ]
