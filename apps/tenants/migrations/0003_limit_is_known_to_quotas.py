from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0002_steps_and_requests'),
    ]

    operations = [
        migrations.RemoveField(model_name='placement', name='gpus'),
    ]
