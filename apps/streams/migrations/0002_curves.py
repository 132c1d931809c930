from django.db import migrations, models

COUNT = """
INSERT INTO streams_curve (topic, series, attempt, points, replaced, pushed)
SELECT topic, series, attempt, count(*), 0, false FROM streams_point GROUP BY topic, series, attempt
"""


class Migration(migrations.Migration):
    dependencies = [("streams", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Curve",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("topic", models.CharField(max_length=80)),
                ("series", models.CharField(max_length=40)),
                ("attempt", models.PositiveIntegerField()),
                ("points", models.BigIntegerField()),
                ("replaced", models.BigIntegerField(default=0)),
                ("pushed", models.BooleanField(default=False)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("topic", "series", "attempt"), name="curve_once")]
            },
        ),
        migrations.AddField("point", "pushed", models.BooleanField(db_default=False, default=False)),
        migrations.RunSQL(COUNT, migrations.RunSQL.noop),
    ]
