from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0006_sources'),
    ]

    operations = [
        migrations.AddField(
            model_name='clustersource',
            name='org',
            field=models.CharField(blank=True, db_default='', max_length=150),
        ),
        migrations.AlterField(
            model_name='clustersource',
            name='kind',
            field=models.CharField(choices=[('prometheus', 'Prometheus'), ('loki', 'Loki')], max_length=12),
        ),
    ]
